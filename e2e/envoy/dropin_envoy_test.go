package envoy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
	"github.com/koalagate/koalagate/internal/dropin/xds/xdstest"
)

// gatewayLimits are limits as Envoy Gateway makes them, of a listener and of a shared
// policy. Windows of a year do not end during a test.
const (
	gatewayLimits = `
domain: default/eg/http
descriptors:
- { key: header, value: header, descriptors: [ { key: rule-0-match-0, value: rule-0-match-0, rate_limit: { unit: YEAR, requests_per_unit: 2 } } ] }
- { key: distinct, value: distinct, descriptors: [ { key: rule-0-match-0, rate_limit: { unit: YEAR, requests_per_unit: 1 } } ] }
- { key: all, value: all, descriptors: [ { key: rule-0-match--1, value: rule-0-match--1, rate_limit: { unit: YEAR, requests_per_unit: 1 } } ] }
- key: address
  value: address
  descriptors:
  - key: masked_remote_address
    value: 127.0.0.0/8
    descriptors: [ { key: remote_address, rate_limit: { unit: YEAR, requests_per_unit: 1 } } ]
- key: several
  value: several
  descriptors:
  - key: rule-0-match-0
    value: rule-0-match-0
    descriptors:
    - key: rule-0-match-1
      value: rule-0-match-1
      descriptors:
      - { key: rule-0-match-2, value: rule-0-match-2, rate_limit: { unit: YEAR, requests_per_unit: 1 } }
  - { key: rule-1-match--1, value: rule-1-match--1, rate_limit: { unit: YEAR, requests_per_unit: 3 } }
- { key: shadow, value: shadow, descriptors: [ { key: rule-0-match--1, value: rule-0-match--1, shadow_mode: true, rate_limit: { unit: YEAR, requests_per_unit: 1 } } ] }
- { key: request-cost, value: request-cost, descriptors: [ { key: rule-0-match--1, value: rule-0-match--1, rate_limit: { unit: YEAR, requests_per_unit: 10 } } ] }
- { key: response-cost, value: response-cost, descriptors: [ { key: rule-0-match-0, rate_limit: { unit: YEAR, requests_per_unit: 1000 } } ] }
- { key: override, value: override, descriptors: [ { key: rule-0-match-0, rate_limit: { unit: YEAR, requests_per_unit: 1 } } ] }
`
	sharedLimits = `
domain: default/policy
descriptors:
- { key: default/policy/rule/0, value: default/policy/rule/0, descriptors: [ { key: rule-0-match-0, rate_limit: { unit: YEAR, requests_per_unit: 2 } } ] }
`
	quotaLimits = `
domain: ai-gateway-quota
descriptors:
- key: backend_name
  value: default/openai
  descriptors:
  - key: model_name_override
    value: gpt
    descriptors:
    - { key: rule-0-x-tenant-match-0, quota_mode: true, rate_limit: { unit: YEAR, requests_per_unit: 1000 } }
    - { key: rule-1-match--1, value: rule-1-match--1, quota_mode: true, rate_limit: { unit: YEAR, requests_per_unit: 2000 } }
`
)

// The actions of Envoy's routes, as Envoy Gateway writes them.
func generic(key string) string {
	return fmt.Sprintf(`{ generic_key: { descriptor_key: %q, descriptor_value: %q } }`, key, key)
}

func headerIs(key, header, value string) string {
	return fmt.Sprintf(`{ header_value_match: { descriptor_key: %q, descriptor_value: %q, expect_match: true, headers: [ { name: %q, string_match: { exact: %q } } ] } }`, key, key, header, value)
}

func headerOf(key, header string) string {
	return fmt.Sprintf(`{ request_headers: { descriptor_key: %q, header_name: %q } }`, key, header)
}

func addressIn(key, value string) string {
	return fmt.Sprintf(`{ remote_address_match: { descriptor_key: %q, descriptor_value: %q, address_matcher: { ranges: [ { address_prefix: 127.0.0.0, prefix_len: 8 } ] } } }`, key, value)
}

// limitOf returns a rate limit of a route: its actions, and further keys `key: value, …`.
func limitOf(more string, actions ...string) string {
	return `{ actions: [ ` + strings.Join(actions, ", ") + ` ]` + rig.Optional("", more) + ` }`
}

// costs returns the two rate limits of a cost that only the response knows: a look, and
// the charge.
func costs(actions ...string) string {
	return limitOf(`hits_addend: { number: 0 }`, actions...) + ", " +
		limitOf(`hits_addend: { format: "%DYNAMIC_METADATA(llm:total)%" }, apply_on_stream_done: true`, actions...)
}

// limitFilter is the name of the rate limit filter.
const limitFilter = "envoy.filters.http.ratelimit"

// gatewayRoute returns the configuration of a route for filters, given as name, domain
// and limits.
func gatewayRoute(filters ...[3]string) string {
	var list []string
	for _, f := range filters {
		list = append(list, fmt.Sprintf(`%s: { "@type": %sfilters.http.ratelimit.v3.RateLimitPerRoute, domain: %s, rate_limits: [ %s ] }`, f[0], rig.TypeURL, f[1], f[2]))
	}
	return `typed_per_filter_config: { ` + strings.Join(list, ", ") + ` }`
}

// gatewayFilter returns a rate limit filter as Envoy Gateway inserts it, but with a
// timeout for a busy machine, and no failure mode that could hide an error.
func gatewayFilter(name, domain string) string {
	return fmt.Sprintf(`{ name: %s, typed_config: { "@type": %sfilters.http.ratelimit.v3.RateLimit, domain: %s, timeout: %s, failure_mode_deny: true, disable_x_envoy_ratelimited_header: true, enable_x_ratelimit_headers: DRAFT_VERSION_03, rate_limit_service: { transport_api_version: V3, grpc_service: { envoy_grpc: { cluster_name: ratelimit_cluster } } } } }`,
		name, rig.TypeURL, domain, rig.Ample)
}

// usage puts the tokens of a response into the metadata, as the external processor of
// Agent Router does.
const usage = `{ name: envoy.filters.http.json_to_metadata, typed_config: { "@type": ` + rig.TypeURL + `filters.http.json_to_metadata.v3.JsonToMetadata, response_rules: { rules: [ { selectors: [ { key: usage }, { key: total_tokens } ], on_present: { metadata_namespace: llm, key: total, type: NUMBER } } ] } } }`

// limitFromHeader puts a limit into the metadata, as an external authorization does.
const limitFromHeader = `{ name: envoy.filters.http.set_metadata, typed_config: { "@type": ` + rig.TypeURL + `filters.http.set_metadata.v3.Config, metadata: [ { metadata_namespace: envoy.lb, value: { tenant_rate_limit: { requests_per_unit: 3, unit: YEAR } } } ] } }`

// replaced is an Envoy with the routes of Envoy Gateway, and koalagate in the place of
// the rate limit service, configured by a control plane.
type replaced struct {
	*testing.T
	gateway *e2e.Gateway
	limits  *e2e.Koalagate
	model   *rig.Backend
}

func startReplaced(t *testing.T) *replaced {
	h := rig.NewFixture(t)
	r := &replaced{T: t, model: rig.StartBackend(t, completion)}
	plane := xdstest.Start(t, nil)
	version := plane.Publish(xdstest.Resource(t, "http", gatewayLimits), xdstest.Resource(t, "policy", sharedLimits), xdstest.Resource(t, "quota", quotaLimits))
	r.limits = rig.Must(h.Stage.RateLimit(rig.Binary, append(rig.RaceSettings[:len(rig.RaceSettings):len(rig.RaceSettings)],
		"CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL="+plane.Address, "REDIS_URL="+h.Redis().Address)...))(t)
	if answer := plane.Answer(version); answer.GetErrorDetail() != nil {
		t.Fatalf("the limits are refused: %v", answer.GetErrorDetail())
	}
	own := []string{gatewayFilter(limitFilter, "default/eg/http")}
	withUsage := append(own[:1:1], usage)
	on := func(name, limits string, filters []string) rig.Listener {
		return rig.Listener{Name: name, Filters: filters, Route: gatewayRoute([3]string{limitFilter, "default/eg/http", limits})}
	}
	const shared, quota = limitFilter + "/default/policy", limitFilter + "/ai-gateway-quota"
	policy := func(name string) rig.Listener {
		limits := limitOf("", generic("default/policy/rule/0"), headerOf("rule-0-match-0", "x-user-id"))
		return rig.Listener{Name: name, Filters: append(own[:1:1], gatewayFilter(shared, "default/policy")), Route: gatewayRoute([3]string{shared, "default/policy", limits})}
	}
	bucket := func(more string) string {
		return `{ generic_key: { descriptor_key: backend_name, descriptor_value: default/openai } }, { generic_key: { descriptor_key: model_name_override, descriptor_value: gpt } }, ` + more
	}
	r.gateway = rig.Must(h.Stage.EnvoyWith(rig.EnvoyConfig(r.model.Address, rig.Cluster("ratelimit_cluster", r.limits.GRPC, rig.HTTP2),
		on("header", limitOf("", generic("header"), headerIs("rule-0-match-0", "x-user-id", "one")), own),
		on("distinct", limitOf("", generic("distinct"), headerOf("rule-0-match-0", "x-user-id")), own),
		on("all", limitOf("", generic("all"), generic("rule-0-match--1")), own),
		on("address", limitOf("", generic("address"), addressIn("masked_remote_address", "127.0.0.0/8"), addressIn("remote_address", "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%")), own),
		on("several", limitOf("", generic("several"), headerIs("rule-0-match-0", ":method", "POST"), headerIs("rule-0-match-1", ":path", "/buy?user=ann"),
			`{ query_parameter_value_match: { descriptor_key: rule-0-match-2, descriptor_value: rule-0-match-2, expect_match: true, query_parameters: [ { name: user, string_match: { exact: ann } } ] } }`)+", "+
			limitOf("", generic("several"), generic("rule-1-match--1")), own),
		on("shadow", limitOf("", generic("shadow"), generic("rule-0-match--1")), own),
		on("request-cost", limitOf(`hits_addend: { number: 4 }`, generic("request-cost"), generic("rule-0-match--1")), own),
		on("response-cost", costs(generic("response-cost"), headerOf("rule-0-match-0", "x-user-id")), withUsage),
		on("override", limitOf(`limit: { dynamic_metadata: { metadata_key: { key: envoy.lb, path: [ { key: tenant_rate_limit } ] } } }`, generic("override"), headerOf("rule-0-match-0", "x-user-id")), append([]string{limitFromHeader}, own...)),
		policy("shared-1"), policy("shared-2"),
		rig.Listener{
			Name: "quota", Filters: []string{gatewayFilter(quota, "ai-gateway-quota"), usage},
			Route: gatewayRoute([3]string{quota, "ai-gateway-quota", costs(bucket(headerOf("rule-0-x-tenant-match-0", "x-tenant"))) + ", " + costs(bucket(generic("rule-1-match--1")))}),
		},
	)))(t)
	return r
}

// send sends a request to a route and checks the status, and what the fields for the
// client say remains, unless that is "".
func (r *replaced) send(want int, method, on, path, remaining string, headers ...string) {
	r.Helper()
	headers = append(headers, "Accept-Encoding: identity") // Envoy reads no usage from compressed responses
	got := rig.WantStatus(r.T, want, method, "http://"+r.gateway.Listeners[on]+path, headers...)
	if remaining != "" {
		rig.WantHeader(r.T, got.Header, "X-Ratelimit-Remaining", remaining)
	}
	if want == http.StatusTooManyRequests && got.Header.Get("X-Envoy-Ratelimited") != "" {
		r.Errorf("%s: the client got X-Envoy-Ratelimited, which Envoy Gateway disables", on)
	}
}

// charged waits until the statistics of a limit show a number of hits: Envoy charges
// costs after the client has its response.
func (r *replaced) charged(path string, hits int) {
	r.Helper()
	line := fmt.Sprintf("ratelimit.service.rate_limit.%s.total_hits: %d\n", path, hits)
	rig.WaitUntil(r.T, line, func() bool {
		page, err := r.limits.Page("/stats")
		return err == nil && strings.Contains(page, line)
	})
}

// Routes of Envoy Gateway and Agent Router on a real Envoy get the answers that
// envoyproxy/ratelimit would give: docs/gateways/envoy-gateway.md.
func TestRoutesOfEnvoyGateway(t *testing.T) {
	r := startReplaced(t)
	const one, two, ann, bob = "X-User-Id: one", "X-User-Id: two", "X-User-Id: ann", "X-User-Id: bob"

	r.send(200, "GET", "header", "/", "1", one)
	r.send(200, "GET", "header", "/", "0", one)
	r.send(429, "GET", "header", "/", "0", one)
	r.send(200, "GET", "header", "/", "", two) // the rule does not concern it

	r.send(200, "GET", "distinct", "/", "0", ann)
	r.send(429, "GET", "distinct", "/", "0", ann)
	r.send(200, "GET", "distinct", "/", "0", bob)

	r.send(200, "GET", "all", "/", "0", ann)
	r.send(429, "GET", "all", "/", "0", bob)

	r.send(200, "GET", "address", "/", "0")
	r.send(429, "GET", "address", "/", "0")

	r.send(200, "POST", "several", "/buy?user=ann", "0")
	r.send(429, "POST", "several", "/buy?user=ann", "0") // charges the other rule too
	r.send(200, "GET", "several", "/buy?user=ann", "0")
	r.send(429, "GET", "several", "/buy?user=ann", "0")

	r.send(200, "GET", "shadow", "/", "0")
	r.send(200, "GET", "shadow", "/", "0")
	r.charged("default/eg/http.shadow_shadow.rule-0-match--1_rule-0-match--1", 2)

	r.send(200, "GET", "request-cost", "/", "6")
	r.send(200, "GET", "request-cost", "/", "2")
	r.send(429, "GET", "request-cost", "/", "0")

	for _, remaining := range []string{"2", "1", "0"} { // of the limit in the metadata
		r.send(200, "GET", "override", "/", remaining, ann)
	}
	r.send(429, "GET", "override", "/", "0", ann)

	r.send(200, "GET", "shared-1", "/", "1", ann)
	r.send(200, "GET", "shared-2", "/", "0", ann)
	r.send(429, "GET", "shared-1", "/", "0", ann)
	r.send(200, "GET", "shared-2", "/", "1", bob)
}

// Costs that are known after the response close a budget, although the charge that
// exceeds it is refused.
func TestCostsOfEnvoyGatewayCloseBudgets(t *testing.T) {
	r := startReplaced(t)
	const cost, ann, bob = "default/eg/http.response-cost_response-cost.rule-0-match-0", "X-User-Id: ann", "X-User-Id: bob"
	r.send(200, "POST", "response-cost", "/", "1000", ann)
	r.charged(cost, 600)
	r.send(200, "POST", "response-cost", "/", "400", ann)
	r.charged(cost, 1200)
	r.send(429, "POST", "response-cost", "/", "0", ann)
	r.send(200, "POST", "response-cost", "/", "1000", bob)
	r.charged(cost, 1800)
	if got := r.model.Requests(); got != 3 {
		t.Errorf("%d requests reached the model; want 3", got)
	}

	// Quotas of Agent Router refuse only if all are exceeded.
	const quota, tenant, other = "ai-gateway-quota.backend_name_default/openai.model_name_override_gpt.rule-1-match--1_rule-1-match--1", "X-Tenant: one", "X-Tenant: two"
	for i := range 4 {
		r.send(200, "POST", "quota", "/", "", tenant) // its own bucket is exceeded after two
		r.charged(quota, 600*(i+1))
	}
	r.send(429, "POST", "quota", "/", "", tenant)
	r.send(200, "POST", "quota", "/", "", other) // the bucket of all is exceeded, its own is not
	r.charged(quota, 3000)
}
