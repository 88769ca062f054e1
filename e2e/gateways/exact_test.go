package gateways_test

import (
	"net/http"
	"strconv"
	"sync"
	"testing"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// A limit of N admits exactly N of many concurrent requests, whichever gateway they
// pass and whichever instance it calls.
func TestExactlyTheLimitPassesTwoInstances(t *testing.T) {
	t.Parallel()
	rounds := 2
	if *long {
		rounds = 10
	}
	for _, way := range rig.Ways {
		t.Run(way.Name, func(t *testing.T) {
			h := rig.NewFixture(t)
			instances := h.PairWith(way, h.File("rules.conf", rig.ExactRules))
			app := h.App()
			envoy, nginx := h.Envoy(app, instances...), h.Nginx(app, instances...)
			for round := range rounds {
				crowd(t, app, "envoy-"+strconv.Itoa(round), envoy.URL)
				crowd(t, app, "nginx-"+strconv.Itoa(round), nginx.URL)
				crowd(t, app, "both-"+strconv.Itoa(round), envoy.URL, nginx.URL)
			}
		})
	}
}

// crowd sends 100 concurrent requests of one user, alternating between the gateways,
// and checks that exactly 25 reach the application.
func crowd(t *testing.T, app *e2e.App, user string, gateways ...string) {
	t.Helper()
	const limit, size = 25, 100
	before := app.Reached()
	statuses := map[int]int{}
	var lock sync.Mutex
	rig.Concurrently(size, func(i int) {
		r, err := rig.TrySend("POST", gateways[i%len(gateways)]+"/api/comments", "X-User-Id: "+user)
		if err != nil {
			t.Error(err)
		}
		if seconds, err := strconv.Atoi(r.Header.Get("Retry-After")); r.Status == http.StatusTooManyRequests && (err != nil || seconds < 1 || seconds > 3600) {
			t.Errorf("%s: 429 with Retry-After %q; the window is an hour", user, r.Header.Get("Retry-After"))
		}
		lock.Lock()
		defer lock.Unlock()
		statuses[r.Status]++
	})
	if statuses[http.StatusOK] != limit || statuses[http.StatusTooManyRequests] != size-limit {
		t.Errorf("%s: %v; want %d of 200 and %d of 429", user, statuses, limit, size-limit)
	}
	if reached := app.Reached() - before; reached != limit {
		t.Errorf("%s: %d requests reached the application, want %d", user, reached, limit)
	}
}
