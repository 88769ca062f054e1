package gateways_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
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

// slowQueueRules admit a request in twenty seconds.
var slowQueueRules = strings.Replace(queueRules, "time=1; count=5; burst=1; wait=3", "time=600; count=30; burst=1; wait=60", 1)

// waitingNginx is the sample with checks that wait for up to three seconds.
func waitingNginx(h *rig.Fixture, app string, k *e2e.Koalagate) *e2e.Gateway {
	h.Helper()
	return rig.Must(h.Stage.NginxSample("nginx/nginx.conf", app, []string{k.HTTP},
		[2]string{"/v1/auth-request;", "/v1/auth-request?_wait=3;"}))(h.T)
}

// Ten requests at once through Envoy and nginx, which ask two instances with one Redis,
// get ten turns of a fifth of a second each: no request is refused, and none reaches the
// application before its turn.
func TestRequestsWaitForTheirTurnsAtTwoGateways(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	instances := h.Pair(h.File("rules.conf", queueRules))
	record := new(rig.Arrivals)
	server := httptest.NewServer(record)
	t.Cleanup(server.Close)
	address := strings.TrimPrefix(server.URL, "http://")
	gateways := []*e2e.Gateway{h.Envoy(&e2e.App{Address: address}, instances...), waitingNginx(h, address, instances[1])}
	begin := time.Now()
	rig.Concurrently(10, func(i int) {
		r, err := rig.TrySend("GET", gateways[i%2].URL+"/queue", "X-User-Id: ann")
		if err != nil || r.Status != http.StatusOK {
			t.Errorf("request %d: %d, %v; want 200 at its turn", i, r.Status, err)
		}
	})
	slices.SortFunc(record.Times, time.Time.Compare)
	if len(record.Times) != 10 {
		t.Fatalf("%d requests reached the application; want 10", len(record.Times))
	}
	for i, at := range record.Times {
		if turn := time.Duration(i) * 200 * time.Millisecond; at.Sub(begin) < turn-time.Millisecond {
			t.Errorf("request %d reached the application after %v; its turn came after %v", i, at.Sub(begin), turn)
		}
	}
}

// Clients that disconnect while they wait give their turns back. Turns are twenty seconds
// apart, so that the queue becomes shorter by this alone.
func TestClientThatLeavesGivesItsTurnBack(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	k := h.Pair(h.File("rules.conf", slowQueueRules))[0]
	app := h.App()
	g := rig.Must(h.Stage.NginxSample("nginx/nginx.conf", app.Address, []string{k.HTTP}, [2]string{"/v1/auth-request;", "/v1/auth-request?_wait=60;"}))(t)
	rig.WantStatus(t, http.StatusOK, "GET", g.URL+"/queue", "X-User-Id: bob")
	ctx, leave := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for range 2 {
		clients.Go(func() {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, g.URL+"/queue", http.NoBody)
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("X-User-Id", "bob")
			if resp, err := rig.Client.Do(r); err == nil {
				resp.Body.Close()
			}
		})
	}
	rig.WaitUntil(t, "two clients wait", func() bool { return nextTurn(t, k, "bob") > 40*time.Second })
	leave()
	clients.Wait()
	rig.WaitUntil(t, "their turns are given back", func() bool { return nextTurn(t, k, "bob") <= 20*time.Second })
}

// nextTurn returns how long the next request of a user would wait.
func nextTurn(t *testing.T, k *e2e.Koalagate, user string) time.Duration {
	t.Helper()
	r := rig.WantStatus(t, http.StatusOK, "GET", fmt.Sprintf("http://%s/rule/browse?uid=%s&path=/queue", k.HTTP, user))
	var answer struct {
		Wait int `json:"Wait_ms"`
	}
	if err := json.Unmarshal([]byte(r.Body), &answer); err != nil {
		t.Fatalf("%s: %v", r.Body, err)
	}
	return time.Duration(answer.Wait) * time.Millisecond
}

// A check without _wait does not wait: its gateway might let the request through when it
// gives up.
func TestCheckWithoutAWaitIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	k := h.Koalagate("--rules", h.File("rules.conf", slowQueueRules))
	g := h.Nginx(h.App(), k)
	rig.WantStatus(t, http.StatusOK, "GET", g.URL+"/queue", "X-User-Id: eve")
	rig.WantStatus(t, http.StatusTooManyRequests, "GET", g.URL+"/queue", "X-User-Id: eve")
	if !strings.Contains(k.Log(), "does not wait for its turn") {
		t.Error("the log does not say that the check has no _wait")
	}
	if nextTurn(t, k, "eve") == 0 {
		t.Error("Koala's API reports no wait")
	}
}
