package e2e

import (
	"fmt"
	"strings"
)

// droppedUser maps each sample to its line that drops a client's X-User-Id, and to a
// replacement that trusts the client, as if it was behind an authenticator.
var droppedUser = map[string][2]string{
	"envoy/envoy.yaml":            {"              - { remove: x-user-id }\n", ""},
	"envoy/envoy-http.yaml":       {"              - { remove: x-user-id }\n", ""},
	"envoy/envoy-llm.yaml":        {"              - { remove: x-user-id }\n", ""},
	"envoy/envoy-queue.yaml":      {"              - { remove: x-user-id }\n", ""},
	"nginx/nginx.conf":            {"    default  \"\";\n", "    default $http_x_user_id;\n"},
	"nginx/accel.conf":            {"    default  \"\";\n", "    default $http_x_user_id;\n"},
	"deploy/caddy/Caddyfile":      {"\t\trequest_header -X-User-Id\n", ""},
	"deploy/traefik/traefik.yaml": {"          X-User-Id: \"\"\n", ""},
	"deploy/haproxy/haproxy.cfg":  {"    http-request del-header X-User-Id\n", ""},
}

// TrustUsers sets whether gateways started from now on trust the X-User-Id of their
// clients. The samples drop it, because they do not authenticate; tests with several
// users act as the authenticator.
func (s *Stage) TrustUsers(trust bool) { s.trustsUsers = trust }

// withUsers returns a sample that trusts X-User-Id. A test may already have replaced the
// line.
func withUsers(name, text string) (string, error) {
	line, found := droppedUser[name]
	if !found {
		return text, nil
	}
	if n := strings.Count(text, line[0]); n > 1 {
		return "", fmt.Errorf("%s: %q occurs %d times; want once", name, line[0], n)
	}
	return strings.ReplaceAll(text, line[0], line[1]), nil
}
