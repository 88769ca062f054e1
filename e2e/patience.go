package e2e

import (
	"fmt"
	"strings"
)

// The times that the samples give koalagate, and those that it gets on a patient
// stage.
var (
	envoysTimes = [][2]string{{" timeout: 0.5s", " timeout: 10s"}, {"connect_timeout: 0.25s", "connect_timeout: 5s"}}
	retryTimes  = append([][2]string{{"max_interval: 0.5s", "max_interval: 10s"}}, envoysTimes...)
	nginxTimes  = [][2]string{{"proxy_connect_timeout 250ms;", "proxy_connect_timeout 5s;"}, {"proxy_read_timeout 1s;", "proxy_read_timeout 10s;"}}
)

// patient are these times by the sample, each as it stands there. A sample may
// say one several times.
var patient = map[string][][2]string{
	"envoy/envoy.yaml":           retryTimes,
	"envoy/envoy-tcp.yaml":       retryTimes,
	"envoy/envoy-http.yaml":      envoysTimes,
	"nginx/nginx.conf":           nginxTimes,
	"nginx/accel.conf":           nginxTimes,
	"deploy/caddy/Caddyfile":     {{"dial_timeout 250ms\n", "dial_timeout 5s\n"}, {"response_header_timeout 1s\n", "response_header_timeout 10s\n"}},
	"deploy/haproxy/haproxy.cfg": {{"timeout connect 250ms\n", "timeout connect 5s\n"}, {"timeout server 1s\n", "timeout server 10s\n"}},
}

// BePatient has the gateways that are started from now on give koalagate ten
// seconds for an answer, whatever their samples say, or as long as those say. A
// gateway that gives up asking lets through, or refuses, what a busy machine
// has counted otherwise: a story that is not about that wants patient ones.
func (s *Stage) BePatient(is bool) { s.isPatient = is }

// unhurried is a sample with the times of a patient stage.
func unhurried(name, text string) (string, error) {
	for _, p := range patient[name] {
		if !strings.Contains(text, p[0]) {
			return "", fmt.Errorf("%s: %q stands there no more; e2e/patience.go is to say what does", name, p[0])
		}
		text = strings.ReplaceAll(text, p[0], p[1])
	}
	return text, nil
}
