package e2e_test

import (
	"fmt"
	"strings"
)

// listener is an HTTP listener of Envoy in front of the application. Each field is
// YAML in flow style, and may be empty.
type listener struct {
	name      string
	filters   []string // before the router
	manager   string   // further keys of the connection manager: `key: value, …`
	route     string   // further keys of the route: `key: value, …`
	rateLimit string   // a list of rate_limits
	tls       string   // a transport_socket
}

// ample is a timeout that no call exceeds because the machine is busy.
const ample = "20s"

const typeURL = "type.googleapis.com/envoy.extensions."

// envoyConfig returns a bootstrap configuration with listeners and clusters.
func envoyConfig(app string, clusters string, listeners ...listener) string {
	var b strings.Builder
	b.WriteString("admin: { address: { socket_address: { address: 127.0.0.1, port_value: 0 } } }\nstatic_resources:\n  listeners:\n")
	for _, l := range listeners {
		b.WriteString(l.yaml())
	}
	fmt.Fprintf(&b, "  clusters:\n%s%s", cluster("app", app, ""), clusters)
	return b.String()
}

func (l *listener) yaml() string {
	filters := append(append([]string(nil), l.filters...),
		`{ name: envoy.filters.http.router, typed_config: { "@type": `+typeURL+`filters.http.router.v3.Router } }`)
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
%s%s`, l.name, typeURL, l.name, optional("rate_limits: ", l.rateLimit), optional("", l.route), strings.Join(filters, ", "), typeURL, line(10, l.manager), line(6, l.tls))
}

// line returns an indented line of YAML, or "" for an empty text.
func line(indent int, text string) string {
	if text == "" {
		return ""
	}
	return strings.Repeat(" ", indent) + text + "\n"
}

// cluster returns a cluster with one endpoint, whose address is host:port or
// unix:/path.
func cluster(name, address, more string) string {
	endpoint := fmt.Sprintf("socket_address: { address: 127.0.0.1, port_value: %s }", address[strings.LastIndexByte(address, ':')+1:])
	if path, isUnix := strings.CutPrefix(address, "unix:"); isUnix {
		endpoint = fmt.Sprintf("pipe: { path: %q }", path)
	}
	return fmt.Sprintf("  - { name: %s, type: STATIC, connect_timeout: 10s, load_assignment: { cluster_name: %s, endpoints: [ { lb_endpoints: [ { endpoint: { address: { %s } } } ] } ] }%s }\n",
		name, name, endpoint, optional("", more))
}

// http2 makes a cluster use HTTP/2, for gRPC.
const http2 = `typed_extension_protocol_options: { envoy.extensions.upstreams.http.v3.HttpProtocolOptions: { "@type": ` + typeURL + `upstreams.http.v3.HttpProtocolOptions, explicit_http_config: { http2_protocol_options: {} } } }`

// extAuthz returns the filter over gRPC, with further keys `key: value, …`.
func extAuthz(timeout, more string) string {
	return fmt.Sprintf(`{ name: envoy.filters.http.ext_authz, typed_config: { "@type": %sfilters.http.ext_authz.v3.ExtAuthz, transport_api_version: V3, grpc_service: { envoy_grpc: { cluster_name: koalagate }%s }%s } }`,
		typeURL, optional("timeout: ", timeout), optional("", more))
}

// rateLimit returns the filter of the rate limit service.
func rateLimit(timeout, more string) string {
	return fmt.Sprintf(`{ name: envoy.filters.http.ratelimit, typed_config: { "@type": %sfilters.http.ratelimit.v3.RateLimit, domain: facts, rate_limit_service: { transport_api_version: V3, grpc_service: { envoy_grpc: { cluster_name: koalagate } } }%s%s } }`,
		typeURL, optional("timeout: ", timeout), optional("", more))
}

// optional returns a key of a mapping in flow style, or "" without a value.
func optional(key, value string) string {
	if value == "" {
		return ""
	}
	return ", " + key + value
}

// scripted is a rate_limits entry that sends the header X-Script, which selects the
// script of the stub.
const scripted = `{ actions: [ { request_headers: { header_name: x-script, descriptor_key: script } } ] }`
