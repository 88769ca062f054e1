package hostile_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// By default Envoy makes at most 1024 calls to a cluster at a time and fails the
// others, and its rate limit filter lets a request through if its call fails. A
// client of HTTP/2 sends any number of requests at a time.
func TestHostileCrowdKeepsEnvoysLimits(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	k := h.Koalagate("--rules", h.File("rules.conf", `
[rules]
rule : [count] [door=ratelimit; domain=public; remote_address=+] [time=3600; count=50] [result=2; return=501]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`))
	app := h.App()
	g := h.Envoy(app, k)
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	crowd := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{Protocols: &protocols}}
	rig.Concurrently(1500, func(int) {
		resp, err := crowd.Get(g.URL + "/a")
		if err == nil {
			resp.Body.Close()
		}
	})
	// Calls that time out on a busy machine let requests through, too. The sample
	// determines only whether Envoy makes the calls.
	admin := string(rig.Must(os.ReadFile(rig.Must(filepath.Glob(filepath.Join(h.Dir, "envoy-*.admin")))(t)[0]))(t))
	const failed = "cluster.koalagate.upstream_rq_active_overflow"
	stats := rig.WantStatus(t, http.StatusOK, "GET", "http://"+admin+"/stats?filter="+failed)
	if want := failed + ": 0\n"; stats.Body != want {
		t.Errorf("Envoy reports %q, and %d requests of a limit of 50 reached the application; want %q", stats.Body, app.Reached(), want)
	}
}
