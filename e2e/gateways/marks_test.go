package gateways_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

const markingRules = `[rules]
rule : [count] [path=+] [time=3600; count=2] [result=2; return=1; mark=slow]
rule : [count] [path=+] [time=3600; count=4] [result=2; return=2; mark=cheap]
rule : [count] [path=+] [time=3600; count=6] [result=2; return=3]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// forgedMarks are headers by which a client may try to mark its request.
var forgedMarks = []string{"X-Koala-Mark: forged", "x-koala-mark: forged", "X-Koala-Mark: forged, again", "X_Koala_Mark: forged", "X-Koala_Mark: forged", "X-KOALA-MARK: "}

// The application gets the marks of its requests through each sample, never a client's own, and
// the client gets none. The same holds while koalagate is down, as far as requests pass.
func TestMarksReachTheApplication(t *testing.T) {
	h := rig.NewFixture(t)
	k := h.Koalagate("--rules", h.File("rules.conf", markingRules))
	app := rig.StartBackend(t, func(w http.ResponseWriter, r *http.Request) {
		for name, values := range r.Header {
			if strings.EqualFold(strings.ReplaceAll(name, "_", "-"), "X-Koala-Mark") {
				_, _ = io.WriteString(w, strings.Join(values, "+"))
			}
		}
	})
	behind := &e2e.App{Address: app.Address}
	gateways := map[string]*e2e.Gateway{
		"envoy": h.Envoy(behind, k), "envoy-http": h.EnvoyHTTP(behind, k), "nginx": h.Nginx(behind, k), "accel": h.Accel(behind, k),
		"caddy": h.Caddy(behind, k), "haproxy": h.Haproxy(behind, k),
	}
	for name, g := range gateways {
		t.Run(name, func(t *testing.T) {
			for i, want := range []string{"", "", "slow", "slow", "slow, cheap", "slow, cheap"} {
				r := rig.WantStatus(t, 200, "GET", g.URL+"/"+name, forgedMarks[i%len(forgedMarks)], forgedMarks[(i+3)%len(forgedMarks)])
				if r.Body != want || r.Header.Get("X-Koala-Mark") != "" {
					t.Errorf("request %d: the application got %q, and the client %q; want %q and nothing", i+1, r.Body, r.Header.Get("X-Koala-Mark"), want)
				}
			}
			if r := rig.WantStatus(t, 429, "GET", g.URL+"/"+name); r.Header.Get("X-Koala-Mark") != "" {
				t.Errorf("a refused client gets the marks %q", r.Header.Get("X-Koala-Mark"))
			}
		})
	}
	k.Kill()
	for name, g := range gateways {
		for _, forged := range forgedMarks {
			if r := rig.Send(t, "GET", g.URL+"/"+name, forged); r.Status == 200 && r.Body != "" {
				t.Errorf("%s without koalagate, %s: the application got %q", name, forged, r.Body)
			}
		}
	}
}
