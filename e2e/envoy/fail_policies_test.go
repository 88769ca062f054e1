package envoy_test

import (
	"testing"

	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// The effect of the policies with Envoy: gateway leaves it to each filter's failure
// mode, and the others are decisions that Envoy enforces.
func TestFailPoliciesAtEnvoy(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]map[string]int{
		"gateway": {
			"authz-closed": 503, "authz-open": 200,
			"limit-closed": 503, "limit-open": 200,
			"web-closed": 503, "web-open": 200,
		},
		"deny": {
			"authz-closed": 503, "authz-open": 503,
			"limit-closed": 429, "limit-open": 429,
			"web-closed": 403, "web-open": 403, // a 5xx would trigger the failure mode
		},
		"allow": {
			"authz-closed": 200, "authz-open": 200,
			"limit-closed": 200, "limit-open": 200,
			"web-closed": 200, "web-open": 200,
		},
	} {
		t.Run(policy, func(t *testing.T) {
			h := rig.NewFixture(t)
			k := rig.WithoutRedis(h, policy)
			limits := `[ { actions: [ { remote_address: {} } ] } ]`
			g := rig.Must(h.Stage.EnvoyWith(rig.EnvoyConfig(newMirror(t).Address, rig.Cluster("koalagate", k.GRPC, rig.HTTP2)+rig.Cluster("service", k.HTTP, ""),
				rig.Listener{Name: "authz-closed", Filters: []string{extAuthz(rig.Ample, `status_on_error: { code: 502 }`)}},
				rig.Listener{Name: "authz-open", Filters: []string{extAuthz(rig.Ample, `failure_mode_allow: true`)}},
				rig.Listener{Name: "limit-closed", Filters: []string{rig.RateLimit(rig.Ample, `failure_mode_deny: true, status_on_error: { code: 503 }`)}, RateLimit: limits},
				rig.Listener{Name: "limit-open", Filters: []string{rig.RateLimit(rig.Ample, "")}, RateLimit: limits},
				rig.Listener{Name: "web-closed", Filters: []string{withLongTimeout(httpAuthz("status_on_error: { code: 503 }"))}},
				rig.Listener{Name: "web-open", Filters: []string{withLongTimeout(httpAuthz("failure_mode_allow: true"))}},
			)))(t)
			for on, status := range want {
				url := "http://" + g.Listeners[on] + "/"
				rig.WaitUntil(t, on+" asks koalagate", func() bool { return rig.Send(t, "GET", url).Status == status })
				for range 3 { // also above the limit
					rig.WantStatus(t, status, "GET", url)
				}
			}
		})
	}
}
