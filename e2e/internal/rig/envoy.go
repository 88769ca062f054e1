package rig

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/koalagate/koalagate/e2e"
)

// Listener is an HTTP listener of Envoy in front of the application. Each field is
// YAML in flow style, and may be empty.
type Listener struct {
	Name      string
	Filters   []string // before the router
	Manager   string   // further keys of the connection manager: `key: value, …`
	Route     string   // further keys of the route: `key: value, …`
	RateLimit string   // a list of rate_limits
	TLS       string   // a transport_socket
}

// Ample is a timeout that no call exceeds because the machine is busy.
const Ample = "20s"

// TypeURL begins the type of each of Envoy's extensions.
const TypeURL = "type.googleapis.com/envoy.extensions."

// EnvoyConfig returns a bootstrap configuration with listeners and clusters.
func EnvoyConfig(app string, clusters string, listeners ...Listener) string {
	var b strings.Builder
	b.WriteString("admin: { address: { socket_address: { address: 127.0.0.1, port_value: 0 } } }\nstatic_resources:\n  listeners:\n")
	for _, l := range listeners {
		b.WriteString(l.yaml())
	}
	fmt.Fprintf(&b, "  clusters:\n%s%s", Cluster("app", app, ""), clusters)
	return b.String()
}

func (l *Listener) yaml() string {
	filters := append(append([]string(nil), l.Filters...),
		`{ name: envoy.filters.http.router, typed_config: { "@type": `+TypeURL+`filters.http.router.v3.Router } }`)
	return fmt.Sprintf(`  - name: %s
    address: { socket_address: { address: 127.0.0.1, port_value: 0 } }
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": %sfilters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: %s
          use_remote_address: true
          route_config: { virtual_hosts: [ { name: all, domains: ["*"], routes: [ { match: { prefix: / }, route: { cluster: app %s } %s } ] } ] }
          http_filters: [ %s ]
          access_log: [ { name: stdout, typed_config: { "@type": %saccess_loggers.stream.v3.StdoutAccessLog, log_format: { text_format_source: { inline_string: "ACCESS %%REQ(:PATH)%% %%RESPONSE_CODE%% %%DYNAMIC_METADATA(envoy.filters.http.ext_authz)%% %%DYNAMIC_METADATA(envoy.filters.http.ratelimit)%%\n" } } } } ]
%s%s`, l.Name, TypeURL, l.Name, Optional("rate_limits: ", l.RateLimit), Optional("", l.Route), strings.Join(filters, ", "), TypeURL, line(10, l.Manager), line(6, l.TLS))
}

// line returns an indented line of YAML, or "" for an empty text.
func line(indent int, text string) string {
	if text == "" {
		return ""
	}
	return strings.Repeat(" ", indent) + text + "\n"
}

// Cluster returns a cluster with one endpoint, whose address is host:port or
// unix:/path.
func Cluster(name, address, more string) string {
	endpoint := fmt.Sprintf("socket_address: { address: 127.0.0.1, port_value: %s }", address[strings.LastIndexByte(address, ':')+1:])
	if path, isUnix := strings.CutPrefix(address, "unix:"); isUnix {
		endpoint = fmt.Sprintf("pipe: { path: %q }", path)
	}
	return fmt.Sprintf("  - { name: %s, type: STATIC, connect_timeout: 10s, load_assignment: { cluster_name: %s, endpoints: [ { lb_endpoints: [ { endpoint: { address: { %s } } } ] } ] }%s }\n",
		name, name, endpoint, Optional("", more))
}

// HTTP2 makes a cluster use HTTP/2, for gRPC.
const HTTP2 = `typed_extension_protocol_options: { envoy.extensions.upstreams.http.v3.HttpProtocolOptions: { "@type": ` + TypeURL + `upstreams.http.v3.HttpProtocolOptions, explicit_http_config: { http2_protocol_options: {} } } }`

// RateLimit returns the filter of the rate limit service.
func RateLimit(timeout, more string) string {
	return fmt.Sprintf(`{ name: envoy.filters.http.ratelimit, typed_config: { "@type": %sfilters.http.ratelimit.v3.RateLimit, domain: facts, rate_limit_service: { transport_api_version: V3, grpc_service: { envoy_grpc: { cluster_name: koalagate } } }%s%s } }`,
		TypeURL, Optional("timeout: ", timeout), Optional("", more))
}

// Optional returns a key of a mapping in flow style, or "" without a value.
func Optional(key, value string) string {
	if value == "" {
		return ""
	}
	return ", " + key + value
}

// Signal sends a signal to a program, and fails the test on an error.
func Signal(t *testing.T, k *e2e.Koalagate, s os.Signal) {
	t.Helper()
	if err := k.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// Load sends requests from several callers until stop is called, which returns
// their number. It returns when ten are answered, so that what follows happens under load.
// Each answer other than 200 fails the test.
func Load(t *testing.T, url string) (stop func() int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var callers sync.WaitGroup
	var answered atomic.Int64
	for range 4 {
		callers.Go(func() {
			for ctx.Err() == nil {
				if r, err := TrySend("POST", url, "X-User-Id: ann"); err != nil || r.Status != http.StatusOK {
					t.Errorf("under load: %d %s, %v; want 200", r.Status, r.Body, err)
					return
				}
				answered.Add(1)
			}
		})
	}
	stopped := false
	stop = func() int64 {
		if !stopped {
			stopped = true
			cancel()
			callers.Wait()
		}
		return answered.Load()
	}
	t.Cleanup(func() { stop() })
	WaitUntil(t, "the load is under way", func() bool { return answered.Load() >= 10 || t.Failed() })
	return stop
}

// WantHeader fails the test unless a header has the values.
func WantHeader(t *testing.T, h http.Header, name string, want ...string) {
	t.Helper()
	if got := h.Values(name); !slices.Equal(got, want) {
		t.Errorf("%s: %q; want %q", name, got, want)
	}
}

// PerRoute returns limits in the filter's per-route configuration, which has more
// options than the route's.
func PerRoute(limits string) string {
	return `typed_per_filter_config: { envoy.filters.http.ratelimit: { "@type": ` + TypeURL + `filters.http.ratelimit.v3.RateLimitPerRoute, rate_limits: [ ` + limits + ` ] } }`
}
