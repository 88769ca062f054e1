package envoy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
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
	h := rig.NewFixture(t)
	k := h.Koalagate("--rules", h.File("rules.conf", policyRules), "--redis", "redis://"+unusedAddress(t))
	limits := `[ { actions: [ { request_headers: { header_name: x-user, descriptor_key: user } } ] } ]`
	g := rig.Must(h.Stage.EnvoyWith(rig.EnvoyConfig(newMirror(t).Address, rig.Cluster("koalagate", k.GRPC, rig.HTTP2)+rig.Cluster("service", k.HTTP, ""),
		rig.Listener{Name: "authz-closed", Filters: []string{extAuthz(rig.Ample, `status_on_error: { code: 502 }`)}},
		rig.Listener{Name: "authz-open", Filters: []string{extAuthz(rig.Ample, `failure_mode_allow: true`)}},
		rig.Listener{Name: "limit-closed", Filters: []string{rig.RateLimit(rig.Ample, `failure_mode_deny: true, status_on_error: { code: 502 }`)}, RateLimit: limits},
		rig.Listener{Name: "limit-open", Filters: []string{rig.RateLimit(rig.Ample, "")}, RateLimit: limits},
		rig.Listener{Name: "web-closed", Filters: []string{withLongTimeout(httpAuthz("status_on_error: { code: 502 }"))}},
		rig.Listener{Name: "web-open", Filters: []string{withLongTimeout(httpAuthz("failure_mode_allow: true"))}},
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
				r := rig.Send(t, "GET", "http://"+g.Listeners[on]+"/"+c.fail, "X-User: "+c.fail)
				if r.Status != want {
					t.Errorf("fail=%s, %s: %d; want %d", c.fail, on, r.Status, want)
				}
				if (want == 503 || want == 429 || want == 403) && !strings.Contains(r.Body, fmt.Sprintf(`"status":%d`, want)) {
					t.Errorf("fail=%s, %s: body %s; want a problem document of status %d", c.fail, on, r.Body, want)
				}
			}
		}
	})
}

// unusedAddress returns a loopback address without a listener, which no other
// program of the tests uses.
func unusedAddress(t *testing.T) string {
	t.Helper()
	return rig.Must(e2e.FreeAddress())(t)
}

// withLongTimeout gives a filter the time that a busy machine needs.
func withLongTimeout(filter string) string {
	return strings.Replace(filter, "timeout: 0.3s", "timeout: "+rig.Ample, 1)
}
