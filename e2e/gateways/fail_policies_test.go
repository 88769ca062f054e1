package gateways_test

import (
	"testing"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// The effect of the policies with gateways that use HTTP, with their samples and with
// variants that fail closed.
func TestFailPoliciesAtHTTPGateways(t *testing.T) {
	t.Parallel()
	closedHAProxy := [2]string{"#http-request deny deny_status 503", "http-request deny deny_status 503"}
	gateways := map[string]func(*rig.Fixture, *e2e.App, ...string) *e2e.Gateway{
		"nginx":          rig.NginxWith("nginx/nginx.conf"),
		"nginx, closed":  rig.NginxWith("nginx/nginx.conf", rig.NginxFailsClosed),
		"accel":          rig.NginxWith("nginx/accel.conf"),
		"caddy":          rig.CaddyWith(),
		"haproxy":        rig.HAProxyWith(),
		"haproxy closed": rig.HAProxyWith(closedHAProxy),
	}
	for policy, want := range map[string]map[string]int{
		"gateway": {"nginx": 200, "nginx, closed": 500, "accel": 503, "caddy": 503, "haproxy": 200, "haproxy closed": 503},
		"deny":    {"nginx": 503, "nginx, closed": 503, "accel": 503, "caddy": 503, "haproxy": 503, "haproxy closed": 503},
		"allow":   {"nginx": 200, "accel": 200, "caddy": 200, "haproxy": 200},
	} {
		t.Run(policy, func(t *testing.T) {
			h := rig.NewFixture(t)
			k, app := rig.WithoutRedis(h, policy), h.App()
			for name, status := range want {
				g := gateways[name](h, app, k.HTTP)
				for range 2 {
					if r := rig.Send(t, "GET", g.URL+"/"); r.Status != status {
						t.Errorf("%s: %d %s; want %d", name, r.Status, r.Body, status)
					}
				}
			}
			if policy == "deny" {
				r := rig.WantStatus(t, 403, "GET", "http://"+k.HTTP+"/v1/auth-request", "X-Original-Uri: /", "X-Original-Method: GET", "X-Real-Ip: 192.0.2.1")
				if r.Header.Get("X-Koala-Status") != "503" {
					t.Errorf("headers %v; want X-Koala-Status: 503", r.Header)
				}
			}
		})
	}
}
