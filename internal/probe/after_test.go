package probe_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/probe"
)

// holding is a gateway with a hold rule: it counts requests until they are reported.
type holding struct {
	limit    int64
	lasts    int  // seconds until a hold runs out
	reported bool // whether the end of a request is reported
	late     int  // requests that come before the first report
	quota    func(http.Header, int64, int)
	held     atomic.Int64
	requests atomic.Int64
}

func (g *holding) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	n := g.requests.Add(1)
	if n > int64(g.late) && g.reported {
		g.held.Store(0)
	}
	held := g.held.Add(1)
	if held > g.limit {
		refuse(w)
		return
	}
	g.quota(w.Header(), g.limit-held, g.lasts)
}

func draftQuota(h http.Header, left int64, lasts int) {
	h.Set("RateLimit-Policy", `"r201";q=3;w=600`)
	h.Set("RateLimit", fmt.Sprintf(`"r201";r=%d;t=%d`, left, lasts))
}

func legacyQuota(h http.Header, left int64, lasts int) {
	h.Set("RateLimit-Remaining", strconv.FormatInt(left, 10))
	h.Set("RateLimit-Reset", strconv.Itoa(lasts))
}

func TestEndsOfRequestsAreProbed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		gateway *holding
		want    string // the beginning of the report
	}{
		"reported":                   {&holding{limit: 3, lasts: 600, reported: true, quota: draftQuota}, "ok    after        the gateway reports the ends of requests"},
		"older headers":              {&holding{limit: 3, lasts: 600, reported: true, quota: legacyQuota}, "ok    after        the gateway reports the ends of requests"},
		"reported late":              {&holding{limit: 3, lasts: 600, reported: true, late: 3, quota: draftQuota}, "ok    after "},
		"reported after a refusal":   {&holding{limit: 1, lasts: 600, reported: true, late: 3, quota: draftQuota}, "ok    after "},
		"not reported":               {&holding{limit: 3, lasts: 2, quota: draftQuota}, "FAULT after        requests that have ended still count after 1s"},
		"not reported, one at once":  {&holding{limit: 1, lasts: 2, quota: draftQuota}, "FAULT after        requests that have ended still count"},
		"a hold of a second":         {&holding{limit: 3, lasts: 1, quota: draftQuota}, "FAULT after        the quota returns by itself after a second"},
		"no quota":                   {&holding{limit: 3, quota: func(http.Header, int64, int) {}}, "FAULT after        the response reports no quota"},
		"refused from the beginning": {&holding{}, "FAULT after        the first request is answered with 429"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(c.gateway)
			defer server.Close()
			target, err := probe.ParseTarget(server.URL + "/")
			if err != nil {
				t.Fatal(err)
			}
			report, err := probe.Run(t.Context(), probe.Options{Target: target, Requests: 100, Timeout: 20 * time.Second, After: true})
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			report.WriteText(&text)
			if !strings.HasPrefix(text.String(), c.want) {
				t.Errorf("got\n%s\nwant %s", text.String(), c.want)
			}
		})
	}
}

func TestEndsAreProbedAtGateways(t *testing.T) {
	target, err := probe.ParseTarget("grpc://127.0.0.1:9191")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := probe.Run(t.Context(), probe.Options{Target: target, Requests: 1, Timeout: time.Second, After: true}); err == nil || !strings.HasPrefix(err.Error(), "--after needs") {
		t.Errorf("%v; want an error about --after", err)
	}
}
