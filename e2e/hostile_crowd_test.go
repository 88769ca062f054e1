package e2e_test

import (
	"net/http"
	"testing"
	"time"
)

// Envoy calls no cluster with more than 1024 requests at a time unless its sample
// says so, and its rate limit filter lets a request through that it could not ask
// about. A client of HTTP/2 sends as many at once as it likes.
func TestHostileCrowdKeepsEnvoysLimits(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	k := h.koalagate("--rules", h.file("rules.conf", `
[rules]
rule : [count] [door=ratelimit; domain=public; remote_address=+] [time=3600; count=50] [result=2; return=501]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`))
	app := h.app()
	g := h.envoy(app, k)
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	crowd := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{Protocols: &protocols}}
	concurrently(1500, func(int) {
		resp, err := crowd.Get(g.URL + "/a")
		if err == nil {
			resp.Body.Close()
		}
	})
	if reached := app.Reached(); reached > 50 {
		t.Errorf("%d requests of a crowd reached the application; want at most the 50 of the rule", reached)
	}
}
