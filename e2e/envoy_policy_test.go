package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/e2e"
)

// policyRules sets a policy for each path, and each user of the rate limit service.
const policyRules = `
[params]
fail : descriptor user
[routes]
* /{fail} : any=1
[rules]
rule : [count] [fail=rescue]  [time=3600; count=100] [result=2; return=201]
rule : [count] [fail=allow]   [time=3600; count=100] [result=2; return=202; fail=allow]
rule : [count] [fail=deny]    [time=3600; count=100] [result=2; return=203; fail=deny]
rule : [count] [fail=gateway] [time=3600; count=100] [result=2; return=204; fail=gateway]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// The effect of fail= of a rule with a real Envoy, for filters that fail open and for
// filters that fail closed. The latter use 502, to distinguish their refusals from
// koalagate's.
func TestEnvoyWithoutRedis(t *testing.T) {
	h := newFixture(t)
	k := h.koalagate("--rules", h.file("rules.conf", policyRules), "--redis", "redis://"+unusedAddress(t))
	limits := `[ { actions: [ { request_headers: { header_name: x-user, descriptor_key: user } } ] } ]`
	g := must(h.stage.EnvoyWith(envoyConfig(newMirror(t).Address, cluster("koalagate", k.GRPC, http2)+cluster("service", k.HTTP, ""),
		listener{name: "authz-closed", filters: []string{extAuthz(ample, `status_on_error: { code: 502 }`)}},
		listener{name: "authz-open", filters: []string{extAuthz(ample, `failure_mode_allow: true`)}},
		listener{name: "limit-closed", filters: []string{rateLimit(ample, `failure_mode_deny: true, status_on_error: { code: 502 }`)}, rateLimit: limits},
		listener{name: "limit-open", filters: []string{rateLimit(ample, "")}, rateLimit: limits},
		listener{name: "web-closed", filters: []string{withLongTimeout(httpAuthz("status_on_error: { code: 502 }"))}},
		listener{name: "web-open", filters: []string{withLongTimeout(httpAuthz("failure_mode_allow: true"))}},
	)))(t)
	t.Run("GW-74 without Redis a rule's fail applies", func(t *testing.T) {
		for _, c := range []struct {
			fail string
			want map[string]int
		}{
			{"rescue", map[string]int{"authz-closed": 200, "authz-open": 200, "limit-closed": 200, "limit-open": 200, "web-closed": 200, "web-open": 200}},
			{"allow", map[string]int{"authz-closed": 200, "authz-open": 200, "limit-closed": 200, "limit-open": 200, "web-closed": 200, "web-open": 200}},
			{"deny", map[string]int{"authz-closed": 503, "authz-open": 503, "limit-closed": 429, "limit-open": 429, "web-closed": 403, "web-open": 403}},
			{"gateway", map[string]int{"authz-closed": 503, "authz-open": 200, "limit-closed": 502, "limit-open": 200, "web-closed": 502, "web-open": 200}},
		} {
			for on, want := range c.want {
				r := send(t, "GET", "http://"+g.Listeners[on]+"/"+c.fail, "X-User: "+c.fail)
				if r.status != want {
					t.Errorf("fail=%s, %s: %d; want %d", c.fail, on, r.status, want)
				}
				if (want == 503 || want == 429 || want == 403) && !strings.Contains(r.body, fmt.Sprintf(`"status":%d`, want)) {
					t.Errorf("fail=%s, %s: body %s; want a problem document of status %d", c.fail, on, r.body, want)
				}
			}
		}
	})
}

// unusedAddress returns a loopback address without a listener, which no other
// program of the tests uses.
func unusedAddress(t *testing.T) string {
	t.Helper()
	return must(e2e.FreeAddress())(t)
}

// withLongTimeout gives a filter the time that a busy machine needs.
func withLongTimeout(filter string) string {
	return strings.Replace(filter, "timeout: 0.3s", "timeout: "+ample, 1)
}
