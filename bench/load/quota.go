package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/koalagate/koalagate/bench/traffic"
	"github.com/koalagate/koalagate/e2e"
)

// quotaSection is the name of the section about gateways that decide by themselves.
const quotaSection = "Requests through one Envoy"

// The subjects of the section about quotas.
const (
	limitFilter = "Envoy with the rate limit filter"
	quotaFilter = "Envoy with the quota filter"
	noFilter    = "Envoy without a filter"
)

// quotaRules have a limit that no request reaches.
const quotaRules = `
[rules]
rule : [token] [tenant=+] [time=1; count=1000000; burst=1000000; lease=20%] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// quotaRequest is a request to Envoy.
const quotaRequest = "GET /?%s HTTP/1.1\r\nHost: gate\r\nX-Tenant: acme\r\n\r\n"

// quotas measures what the filters of Envoy cost that have koalagate limit requests: one asks
// about each, the other decides by itself. Another listener of Envoy answers the requests that it admits.
func (r *run) quotas(ctx context.Context) error {
	r.Chapter("Gateways that decide by themselves", "")
	if !r.only.MatchString(quotaSection) {
		return nil
	}
	rules := filepath.Join(r.scene.dir, "quota.conf")
	if err := os.WriteFile(rules, []byte(quotaRules), 0o600); err != nil {
		return err
	}
	s := section{name: quotaSection, promised: true, traffic: traffic.OneCounter, load: load{callers: manyCallers}}
	for _, one := range []struct{ name, filter string }{{limitFilter, limitConfig}, {quotaFilter, quotaConfig}, {noFilter, ""}} {
		i, err := r.scene.koalagateOf(r.scene.binary, rules, one.name, true)
		if err != nil {
			return err
		}
		app, err := e2e.FreeAddress()
		if err != nil {
			return err
		}
		g, err := r.scene.stage.EnvoyWith(fmt.Sprintf(quotaEnvoy, one.filter, portOf(app), portOf(i.grpc), portOf(app)))
		if err != nil {
			return err
		}
		through := *i
		if through.http = g.Address; one.filter == "" {
			through.service, through.redis, through.redisAddress = 0, 0, ""
		}
		subject := through.web(quotaRequest)
		subject.net = through.service != 0
		s.subjects = append(s.subjects, subject)
	}
	return r.section(ctx, &s)
}

func portOf(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

// comparedQuotas adds what the filters of Envoy cost.
func (r *run) comparedQuotas() {
	of := func(name string) *figures { return r.figures(quotaSection, name) }
	r.Figure("Envoy with the quota filter, requests/s relative to none", ratio(of(quotaFilter), of(noFilter), rate))
	r.Figure("Envoy with the rate limit filter, requests/s relative to none", ratio(of(limitFilter), of(noFilter), rate))
	r.Figure("the quota filter, service and Redis CPU per request relative to the rate limit filter", ratio(of(quotaFilter), of(limitFilter), totalCPU))
}

// quotaEnvoy is the configuration of Envoy, with a filter, and the ports of the application, of
// koalagate, and of the application again.
const quotaEnvoy = `
admin: { address: { socket_address: { address: 127.0.0.1, port_value: 0 } } }
static_resources:
  listeners:
  - name: http
    address: { socket_address: { address: 127.0.0.1, port_value: 0 } }
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: http
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: { prefix: / }
                route:
                  cluster: app
                  rate_limits: [ { actions: [ { request_headers: { header_name: x-tenant, descriptor_key: tenant } } ] } ]
          http_filters:
%s          - name: envoy.filters.http.router
            typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
  - name: app
    address: { socket_address: { address: 127.0.0.1, port_value: %s } }
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: app
          route_config: { virtual_hosts: [ { name: all, domains: ["*"], routes: [ { match: { prefix: / }, direct_response: { status: 200, body: { inline_string: "ok\n" } } } ] } ] }
          http_filters:
          - name: envoy.filters.http.router
            typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
  clusters:
  - name: koalagate
    type: STATIC
    connect_timeout: 1s
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: { http2_protocol_options: {} }
    load_assignment: { cluster_name: koalagate, endpoints: [ { lb_endpoints: [ { endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: %s } } } } ] } ] }
  - name: app
    type: STATIC
    connect_timeout: 1s
    load_assignment: { cluster_name: app, endpoints: [ { lb_endpoints: [ { endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: %s } } } } ] } ] }
`

// limitConfig is the rate limit filter, and quotaConfig the quota filter.
const (
	limitConfig = `          - name: envoy.filters.http.ratelimit
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
              domain: edge
              timeout: 5s
              failure_mode_deny: true
              rate_limit_service: { transport_api_version: V3, grpc_service: { envoy_grpc: { cluster_name: koalagate } } }
`
	quotaConfig = `          - name: envoy.filters.http.rate_limit_quota
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.rate_limit_quota.v3.RateLimitQuotaFilterConfig
              domain: edge
              rlqs_server: { envoy_grpc: { cluster_name: koalagate }, timeout: 0s }
              bucket_matchers:
                matcher_list:
                  matchers:
                  - predicate:
                      single_predicate:
                        input: { name: tenant, typed_config: { "@type": type.googleapis.com/envoy.type.matcher.v3.HttpRequestHeaderMatchInput, header_name: x-tenant } }
                        value_match: { prefix: a }
                    on_match:
                      action:
                        name: quota
                        typed_config:
                          "@type": type.googleapis.com/envoy.extensions.filters.http.rate_limit_quota.v3.RateLimitQuotaBucketSettings
                          bucket_id_builder:
                            bucket_id_builder:
                              tenant: { custom_value: { name: tenant, typed_config: { "@type": type.googleapis.com/envoy.type.matcher.v3.HttpRequestHeaderMatchInput, header_name: x-tenant } } }
                          reporting_interval: 5s
`
)
