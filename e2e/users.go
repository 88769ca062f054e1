package e2e

import (
	"fmt"
	"strings"
)

// droppedUser is the line of each sample that drops a client's X-User-Id, and the
// line that believes the client instead, as if it stood behind an authenticator.
var droppedUser = map[string][2]string{
	"envoy/envoy.yaml":           {"              - { remove: x-user-id }\n", ""},
	"envoy/envoy-http.yaml":      {"              - { remove: x-user-id }\n", ""},
	"nginx/nginx.conf":           {`$koala_user { default ""; }`, "$koala_user { default $http_x_user_id; }"},
	"nginx/accel.conf":           {`$koala_user { default ""; }`, "$koala_user { default $http_x_user_id; }"},
	"deploy/caddy/Caddyfile":     {"\t\trequest_header -X-User-Id\n", ""},
	"deploy/haproxy/haproxy.cfg": {"    http-request del-header X-User-Id\n", ""},
}

// TrustUsers sets whether the gateways that are started from now on believe the
// X-User-Id of their clients. The samples drop it, because they authenticate
// nobody; tests that need several users stand in for the authenticator.
func (s *Stage) TrustUsers(trust bool) { s.trustsUsers = trust }

// withUsers returns a sample that believes X-User-Id. A test may have replaced
// the line already.
func withUsers(name, text string) (string, error) {
	line, found := droppedUser[name]
	if !found {
		return text, nil
	}
	if n := strings.Count(text, line[0]); n > 1 {
		return "", fmt.Errorf("%s: %q occurs %d times; want it once", name, line[0], n)
	}
	return strings.ReplaceAll(text, line[0], line[1]), nil
}
