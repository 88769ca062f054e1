package rig

import (
	"fmt"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/e2e"
)

// CaddyWith returns a function that starts Caddy with its sample, changed by pairs.
func CaddyWith(pairs ...[2]string) func(*Fixture, *e2e.App, ...string) *e2e.Gateway {
	return func(h *Fixture, app *e2e.App, koalagate ...string) *e2e.Gateway {
		h.Helper()
		return Must(h.Stage.Caddy(app.Address, koalagate, pairs...))(h.T)
	}
}

// CaddyFailsClosed replaces the condition of the sample's block that lets requests
// through if koalagate is down with one that never holds.
var CaddyFailsClosed = [2]string{"`{http.error.status_code} in [502, 503, 504]`", "`{http.error.status_code} == 599`"}

// HAProxyWith returns a function that starts HAProxy with its sample, changed by pairs.
func HAProxyWith(pairs ...[2]string) func(*Fixture, *e2e.App, ...string) *e2e.Gateway {
	return func(h *Fixture, app *e2e.App, koalagate ...string) *e2e.Gateway {
		h.Helper()
		return Must(h.Stage.HAProxy(app.Address, koalagate, pairs...))(h.T)
	}
}

// NginxFailsClosed removes the line of the sample that lets requests through if
// koalagate is down.
var NginxFailsClosed = [2]string{"      error_page 502 503 504 = @koala_open;\n", ""}

// NginxWith returns a function that starts nginx with a sample, changed by pairs.
func NginxWith(name string, pairs ...[2]string) func(*Fixture, *e2e.App, ...string) *e2e.Gateway {
	return func(h *Fixture, app *e2e.App, koalagate ...string) *e2e.Gateway {
		h.Helper()
		return Must(h.Stage.NginxSample(name, app.Address, koalagate, pairs...))(h.T)
	}
}

// EnvoyHTTP starts Envoy with envoy/envoy-http.yaml in front of app.
func (h *Fixture) EnvoyHTTP(app *e2e.App, k *e2e.Koalagate) *e2e.Gateway {
	h.Helper()
	return h.EnvoyHTTPWith(app, k)
}

// EnvoyHTTPWith does the same with replacements.
func (h *Fixture) EnvoyHTTPWith(app *e2e.App, k *e2e.Koalagate, pairs ...[2]string) *e2e.Gateway {
	h.Helper()
	return Must(h.Stage.EnvoySample("envoy/envoy-http.yaml", append(pairs,
		[2]string{"port_value: 9901 ", "port_value: 0 "}, [2]string{"port_value: 10000 ", "port_value: 0 "},
		[2]string{"port_value: 8000 ", "port_value: " + Port(app.Address) + " "},
		[2]string{"port_value: 9981 ", "port_value: " + Port(k.HTTP) + " "},
		[2]string{"port_value: 9982 ", "port_value: " + Port(k.Admin) + " "})...))(h.T)
}

// Port returns the port of an address.
func Port(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

// grpcEndpoints replaces the gRPC address of samples by the addresses of instances.
func grpcEndpoints(instances []*e2e.Koalagate) [2]string {
	const endpoint = "        - endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: %s } } }\n"
	var endpoints strings.Builder
	for _, k := range instances {
		fmt.Fprintf(&endpoints, endpoint, Port(k.GRPC))
	}
	return [2]string{fmt.Sprintf(endpoint, "9191"), endpoints.String()}
}

// QueueEnvoy starts the sample for queues in front of an application and a partner.
func QueueEnvoy(h *Fixture, partner, app string, instances []*e2e.Koalagate, pairs ...[2]string) *e2e.Gateway {
	h.Helper()
	return Must(h.Stage.EnvoySample("envoy/envoy-queue.yaml", append(pairs,
		[2]string{"port_value: 9901 ", "port_value: 0 "},
		[2]string{"port_value: 10000 ", "port_value: 0 "},
		[2]string{"port_value: 8000 ", "port_value: " + Port(app) + " "},
		[2]string{"port_value: 8001 ", "port_value: " + Port(partner) + " "},
		grpcEndpoints(instances))...))(h.T)
}

// LlmEnvoy starts the sample for language models.
func LlmEnvoy(h *Fixture, m *Backend, instances ...*e2e.Koalagate) *e2e.Gateway {
	h.Helper()
	return LlmEnvoyWith(h, m, instances)
}

// LlmEnvoyWith does the same with replacements.
func LlmEnvoyWith(h *Fixture, m *Backend, instances []*e2e.Koalagate, pairs ...[2]string) *e2e.Gateway {
	h.Helper()
	return Must(h.Stage.EnvoySample("envoy/envoy-llm.yaml", append(pairs,
		[2]string{"port_value: 9901 ", "port_value: 0 "},
		[2]string{"port_value: 10000 ", "port_value: 0 "},
		[2]string{"port_value: 8000 ", "port_value: " + Port(m.Address) + " "},
		grpcEndpoints(instances))...))(h.T)
}

// Spent waits until the counter of a rule reaches a value: Envoy reports the end of a
// response after the client has it.
func Spent(t *testing.T, k *e2e.Koalagate, query string, want int) {
	t.Helper()
	counter := fmt.Sprintf(`"cache_val":%d}`, want)
	WaitUntil(t, query+" is "+counter, func() bool {
		r, err := TrySend("GET", "http://"+k.HTTP+"/rule/value?"+query)
		return err == nil && strings.Contains(strings.ReplaceAll(r.Body, " ", ""), counter)
	})
}
