package e2e_test

import (
	"strings"
	"testing"

	"github.com/koalagate/koalagate/e2e"
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
	h := newFixture(t)
	k := h.koalagate("--rules", h.file("rules.conf", neverA))
	app := h.app()
	for name, g := range map[string]*e2e.Gateway{
		"envoy": h.envoy(app, k), "envoy over HTTP": h.envoyHTTP(app, k), "nginx": h.nginx(app, k), "accel": nginxWith("nginx/accel.conf")(h, app, k.HTTP),
		"caddy": caddyWith()(h, app, k.HTTP), "haproxy": haproxyWith()(h, app, k.HTTP),
	} {
		wantStatus(t, 403, "GET", g.URL+"/a")
		for _, target := range []string{"/x#/../a", "http://shop.example/x#/../a", "/x?#/../a"} {
			reached := app.Reached()
			status, err := sendRaw(g, strings.Replace("GET TARGET HTTP/1.1\r\nSHOP", "TARGET", target, 1))
			if err != nil || status < 400 || app.Reached() != reached {
				t.Errorf("%s, %s: %d, %v, reached the application: %t; want a refusal", name, target, status, err, app.Reached() != reached)
			}
		}
	}
}
