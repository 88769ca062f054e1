package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
)

const queueRules = `
[params]
uid : header X-User-Id
[rules]
rule : [token] [path=/queue; uid=+] [time=1; count=5; burst=1; wait=3] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// arrivals is an application that records when requests reach it.
type arrivals struct {
	mu    sync.Mutex
	times []time.Time
}

func (a *arrivals) ServeHTTP(http.ResponseWriter, *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.times = append(a.times, time.Now())
}

// waitingNginx is the sample with checks that wait for up to three seconds.
func waitingNginx(h *fixture, app string, k *e2e.Koalagate) *e2e.Gateway {
	h.Helper()
	return must(h.stage.NginxSample("nginx/nginx.conf", app, []string{k.HTTP},
		[2]string{"/v1/auth-request;", "/v1/auth-request?_wait=3;"}))(h.T)
}

// Ten requests at once through Envoy and nginx, which ask two instances with one Redis,
// get ten turns of a fifth of a second each: no request is refused, and none reaches the
// application before its turn.
func TestRequestsWaitForTheirTurnsAtTwoGateways(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	instances := h.pair(h.file("rules.conf", queueRules))
	record := new(arrivals)
	server := httptest.NewServer(record)
	t.Cleanup(server.Close)
	address := strings.TrimPrefix(server.URL, "http://")
	gateways := []*e2e.Gateway{h.envoy(&e2e.App{Address: address}, instances...), waitingNginx(h, address, instances[1])}
	record.mu.Lock()
	record.times = nil // the stage has asked whether the gateways answer
	record.mu.Unlock()
	begin := time.Now()
	concurrently(10, func(i int) {
		r, err := trySend("GET", gateways[i%2].URL+"/queue", "X-User-Id: ann")
		if err != nil || r.status != http.StatusOK {
			t.Errorf("request %d: %d, %v; want 200 at its turn", i, r.status, err)
		}
	})
	slices.SortFunc(record.times, time.Time.Compare)
	if len(record.times) != 10 {
		t.Fatalf("%d requests reached the application; want 10", len(record.times))
	}
	for i, at := range record.times {
		if turn := time.Duration(i) * 200 * time.Millisecond; at.Sub(begin) < turn-time.Millisecond {
			t.Errorf("request %d reached the application after %v; its turn came after %v", i, at.Sub(begin), turn)
		}
	}
}

// A client that disconnects while it waits gives its turn back.
func TestClientThatLeavesGivesItsTurnBack(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	k := h.pair(h.file("rules.conf", queueRules))[0]
	app := h.app()
	g := waitingNginx(h, app.Address, k)
	wantStatus(t, http.StatusOK, "GET", g.URL+"/queue", "X-User-Id: bob")
	impatient := &http.Client{Timeout: 300 * time.Millisecond}
	for range 12 { // their turns come after 0.2 … 2.4 s
		go func() {
			r, err := http.NewRequest(http.MethodGet, g.URL+"/queue", http.NoBody)
			if err != nil {
				return
			}
			r.Header.Set("X-User-Id", "bob")
			if resp, err := impatient.Do(r); err == nil {
				resp.Body.Close()
			}
		}()
	}
	time.Sleep(time.Second)
	begin := time.Now()
	wantStatus(t, http.StatusOK, "GET", g.URL+"/queue", "X-User-Id: bob")
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("the next request waited for %v; want a turn that was given back", took)
	}
}

// A check without _wait does not wait: its gateway might let the request through when it
// gives up.
func TestCheckWithoutAWaitIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	k := h.koalagate("--rules", h.file("rules.conf", queueRules))
	g := h.nginx(h.app(), k)
	wantStatus(t, http.StatusOK, "GET", g.URL+"/queue", "X-User-Id: eve")
	wantStatus(t, http.StatusTooManyRequests, "GET", g.URL+"/queue", "X-User-Id: eve")
	if !strings.Contains(k.Log(), "does not wait for its turn") {
		t.Error("the log does not say that the check has no _wait")
	}
	r := wantStatus(t, http.StatusOK, "GET", fmt.Sprintf("http://%s/rule/browse?uid=eve&path=/queue", k.HTTP))
	if !strings.Contains(r.body, `"Wait_ms":`) {
		t.Errorf("Koala's API answers %s; want the wait", r.body)
	}
}
