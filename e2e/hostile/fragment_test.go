package hostile_test

import (
	"strings"
	"testing"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

const neverA = `
[rules]
rule : [direct] [path=/a] [] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// A request target must not contain a fragment, and programs treat it differently:
// some end the path there, and others resolve the dots after it.
func TestFragmentsAreRefused(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	k := h.Koalagate("--rules", h.File("rules.conf", neverA))
	app := h.App()
	for name, g := range map[string]*e2e.Gateway{
		"envoy": h.Envoy(app, k), "envoy over HTTP": h.EnvoyHTTP(app, k), "nginx": h.Nginx(app, k), "accel": rig.NginxWith("nginx/accel.conf")(h, app, k.HTTP),
		"caddy": rig.CaddyWith()(h, app, k.HTTP), "haproxy": rig.HAProxyWith()(h, app, k.HTTP),
	} {
		rig.WantStatus(t, 403, "GET", g.URL+"/a")
		for _, target := range []string{"/x#/../a", "http://shop.example/x#/../a", "/x?#/../a"} {
			reached := app.Reached()
			status, err := rig.SendRaw(g, strings.Replace("GET TARGET HTTP/1.1\r\nSHOP", "TARGET", target, 1))
			if err != nil || status < 400 || app.Reached() != reached {
				t.Errorf("%s, %s: %d, %v, reached the application: %t; want a refusal", name, target, status, err, app.Reached() != reached)
			}
		}
	}
}
