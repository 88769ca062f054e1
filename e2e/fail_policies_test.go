package e2e_test

import (
	"strings"
	"testing"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/internal/doorname"
)

// withoutRedis starts an instance without its Redis, with the same policy for every
// door.
func withoutRedis(h *fixture, policy string) *e2e.Koalagate {
	h.Helper()
	gone := h.redis()
	if err := gone.Kill(); err != nil {
		h.Fatal(err)
	}
	doors := doorname.Served()
	said := strings.Join(doors, "="+policy+",") + "=" + policy
	rules := h.file("away-"+policy+".conf", `
[params]
from : client-ip else descriptor remote_address
[rules]
rule : [count] [from=+] [time=3600; count=1;] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`)
	return must(h.stage.Koalagate(binary, []string{"KOALAGATE_DRAIN_WAIT=0s", "KOALAGATE_FAIL_POLICIES=" + said}, "--rules", rules, "--redis", gone.URL()))(h.T)
}

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
			h := newFixture(t)
			k := withoutRedis(h, policy)
			limits := `[ { actions: [ { remote_address: {} } ] } ]`
			g := must(h.stage.EnvoyWith(envoyConfig(newMirror(t).Address, cluster("koalagate", k.GRPC, http2)+cluster("service", k.HTTP, ""),
				listener{name: "authz-closed", filters: []string{extAuthz(ample, `status_on_error: { code: 502 }`)}},
				listener{name: "authz-open", filters: []string{extAuthz(ample, `failure_mode_allow: true`)}},
				listener{name: "limit-closed", filters: []string{rateLimit(ample, `failure_mode_deny: true, status_on_error: { code: 503 }`)}, rateLimit: limits},
				listener{name: "limit-open", filters: []string{rateLimit(ample, "")}, rateLimit: limits},
				listener{name: "web-closed", filters: []string{withLongTimeout(httpAuthz("status_on_error: { code: 503 }"))}},
				listener{name: "web-open", filters: []string{withLongTimeout(httpAuthz("failure_mode_allow: true"))}},
			)))(t)
			for on, status := range want {
				url := "http://" + g.Listeners[on] + "/"
				waitUntil(t, on+" asks koalagate", func() bool { return send(t, "GET", url).status == status })
				for range 3 { // also above the limit
					wantStatus(t, status, "GET", url)
				}
			}
		})
	}
}

// The effect of the policies with gateways that use HTTP, with their samples and with
// variants that fail closed.
func TestFailPoliciesAtHTTPGateways(t *testing.T) {
	t.Parallel()
	closedHAProxy := [2]string{"#http-request deny deny_status 503", "http-request deny deny_status 503"}
	gateways := map[string]func(*fixture, *e2e.App, ...string) *e2e.Gateway{
		"nginx":          nginxWith("nginx/nginx.conf"),
		"nginx, closed":  nginxWith("nginx/nginx.conf", nginxFailsClosed),
		"accel":          nginxWith("nginx/accel.conf"),
		"caddy":          caddyWith(),
		"haproxy":        haproxyWith(),
		"haproxy closed": haproxyWith(closedHAProxy),
	}
	for policy, want := range map[string]map[string]int{
		"gateway": {"nginx": 200, "nginx, closed": 500, "accel": 503, "caddy": 503, "haproxy": 200, "haproxy closed": 503},
		"deny":    {"nginx": 503, "nginx, closed": 503, "accel": 503, "caddy": 503, "haproxy": 503, "haproxy closed": 503},
		"allow":   {"nginx": 200, "accel": 200, "caddy": 200, "haproxy": 200},
	} {
		t.Run(policy, func(t *testing.T) {
			h := newFixture(t)
			k, app := withoutRedis(h, policy), h.app()
			for name, status := range want {
				g := gateways[name](h, app, k.HTTP)
				for range 2 {
					if r := send(t, "GET", g.URL+"/"); r.status != status {
						t.Errorf("%s: %d %s; want %d", name, r.status, r.body, status)
					}
				}
			}
			if policy == "deny" {
				r := wantStatus(t, 403, "GET", "http://"+k.HTTP+"/v1/auth-request", "X-Original-Uri: /", "X-Original-Method: GET", "X-Real-Ip: 192.0.2.1")
				if r.header.Get("X-Koala-Status") != "503" {
					t.Errorf("headers %v; want X-Koala-Status: 503", r.header)
				}
			}
		})
	}
}
