package e2e

import (
	"fmt"
	"strings"
)

// The samples' timeouts for koalagate, and their replacements on a patient stage.
var (
	envoyTimes = [][2]string{{" timeout: 0.5s", " timeout: 10s"}, {"connect_timeout: 0.25s", "connect_timeout: 5s"}}
	retryTimes = append([][2]string{{"max_interval: 0.5s", "max_interval: 10s"}}, envoyTimes...)
	nginxTimes = [][2]string{{"proxy_connect_timeout 1s;", "proxy_connect_timeout 5s;"}, {"proxy_read_timeout 1s;", "proxy_read_timeout 10s;"}}
)

// patient maps samples to the replacements of their timeouts. A timeout may occur
// in a sample several times.
var patient = map[string][][2]string{
	"envoy/envoy.yaml":           retryTimes,
	"envoy/envoy-tcp.yaml":       retryTimes,
	"envoy/envoy-llm.yaml":       retryTimes,
	"envoy/envoy-queue.yaml":     retryTimes,
	"envoy/envoy-http.yaml":      envoyTimes,
	"nginx/nginx.conf":           nginxTimes,
	"nginx/accel.conf":           nginxTimes,
	"deploy/caddy/Caddyfile":     {{"dial_timeout 250ms\n", "dial_timeout 5s\n"}, {"response_header_timeout 1s\n", "response_header_timeout 10s\n"}},
	"deploy/haproxy/haproxy.cfg": {{"timeout connect 250ms\n", "timeout connect 5s\n"}, {"timeout server 1s\n", "timeout server 10s\n"}},

	"examples/first-limit/envoy.yaml":       envoyTimes,
	"examples/envoy-gateway/resources.yaml": {{" timeout: 500ms", " timeout: 10s"}},
	"examples/clients/client.go":            {{"Timeout: time.Second}", "Timeout: 10 * time.Second}"}},
	"examples/clients/client.py":            {{"timeout=1)", "timeout=10)"}},
	"examples/clients/client.mjs":           {{"timeout(1000)", "timeout(10000)"}},
	"examples/clients/client.php":           {{"'timeout' => 1.0,", "'timeout' => 10.0,"}},
}

// BePatient sets whether gateways and clients started from now on give koalagate ten seconds
// for an answer rather than the timeout of their samples. After a timeout a
// gateway passes or refuses a request regardless of the count. On a busy machine
// that disturbs tests of other behavior, which need patient gateways.
func (s *Stage) BePatient(is bool) { s.isPatient = is }

// WithLongTimeouts returns the text of the sample of a name with the timeouts of a patient
// stage. Other files keep their text.
func WithLongTimeouts(name, text string) (string, error) {
	for _, p := range patient[name] {
		if !strings.Contains(text, p[0]) {
			return "", fmt.Errorf("%s: %q not found; update e2e/patience.go", name, p[0])
		}
		text = strings.ReplaceAll(text, p[0], p[1])
	}
	return text, nil
}
