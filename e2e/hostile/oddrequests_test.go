package hostile_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// Every request of a client is either decided and counted, or refused, and later
// requests are answered. The samples let requests through if the check fails: no
// client's request may cause that.
func TestOddRequestsThroughGateways(t *testing.T) {
	t.Parallel()
	tryOddRequests(rig.NewFixture(t))
}

// The same holds for samples that authenticate their clients.
func TestOddRequestsOfUsersThroughGateways(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	h.Stage.Authenticate("ann")
	tryOddRequests(h)
}

func tryOddRequests(h *rig.Fixture) {
	t := h.T
	k := h.Koalagate("--rules", h.File("rules.conf", rig.OneCounter))
	app := h.App()
	for name, g := range map[string]*e2e.Gateway{
		"envoy": h.Envoy(app, k), "envoy over HTTP": h.EnvoyHTTP(app, k), "nginx": h.Nginx(app, k), "accel": rig.NginxWith("nginx/accel.conf")(h, app, k.HTTP),
		"caddy": rig.CaddyWith()(h, app, k.HTTP), "haproxy": rig.HAProxyWith()(h, app, k.HTTP),
	} {
		rig.TryOddRequests(t, name, g, app, k, false)
	}
}

// Some applications accept `post` as POST, and Caddy and HAProxy pass it on as received,
// so it meets the rules on POST. nginx and Envoy refuse such methods.
func TestMethodsMeetTheirRulesInAnyCase(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	k := h.Koalagate("--rules", h.File("rules.conf", `
[params]
other : gateway
[routes]
POST /a : act=post
[rules]
rule : [direct] [act=post]             [] [result=2; return=101]
rule : [direct] [method=POST; path=/b] [] [result=2; return=102]
rule : [direct] [other=none]           [] [result=2; return=103]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`))
	app := h.App()
	for name, g := range map[string]*e2e.Gateway{
		"envoy": h.Envoy(app, k), "envoy over HTTP": h.EnvoyHTTP(app, k), "nginx": h.Nginx(app, k), "accel": rig.NginxWith("nginx/accel.conf")(h, app, k.HTTP),
		"caddy": rig.CaddyWith()(h, app, k.HTTP), "haproxy": rig.HAProxyWith()(h, app, k.HTTP),
	} {
		for _, path := range []string{"/a", "/b"} {
			for _, method := range []string{"POST", "post", "PoSt"} {
				isRefused := method != "POST" && !slices.Contains([]string{"caddy", "haproxy"}, name)
				reached := app.Reached()
				status, err := rig.SendRaw(g, method+" "+path+" HTTP/1.1\r\nSHOP\r\nContent-Length: 0")
				switch {
				case isRefused && err == nil && status < http.StatusBadRequest, app.Reached() != reached:
					t.Errorf("%s, %s %s: %d, and it reached the application; want a refusal", name, method, path, status)
				case !isRefused && (err != nil || status != http.StatusForbidden):
					t.Errorf("%s, %s %s: %d, %v; want the rule's 403", name, method, path, status, err)
				}
			}
			if status, err := rig.SendRaw(g, "get "+path+" HTTP/1.1\r\nSHOP"); err == nil && status >= http.StatusInternalServerError && status != http.StatusNotImplemented {
				t.Errorf("%s, get %s: %d; want an answer of the gateway or of the application", name, path, status)
			}
			rig.WantStatus(t, http.StatusOK, "GET", g.URL+path)
		}
	}
}
