package e2e_test

import (
	"net/http"
	"strconv"
	"sync"
	"testing"

	"github.com/koalagate/koalagate/e2e"
)

const exactRules = `
[params]
uid : header X-User-Id
[routes]
POST /api/comments : act=comment
[rules]
rule : [count] [act=comment; uid=+] [time=3600; count=25;] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10, "Str_reason":"Deny"}
`

// A limit of N admits exactly N of many concurrent requests, whichever gateway they
// pass and whichever instance it calls.
func TestExactlyTheLimitPassesTwoInstances(t *testing.T) {
	t.Parallel()
	rounds := 2
	if *long {
		rounds = 10
	}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			h := newFixture(t)
			instances := h.pairWith(way, h.file("rules.conf", exactRules))
			app := h.app()
			envoy, nginx := h.envoy(app, instances...), h.nginx(app, instances...)
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
	concurrently(size, func(i int) {
		r, err := trySend("POST", gateways[i%len(gateways)]+"/api/comments", "X-User-Id: "+user)
		if err != nil {
			t.Error(err)
		}
		if seconds, err := strconv.Atoi(r.header.Get("Retry-After")); r.status == http.StatusTooManyRequests && (err != nil || seconds < 1 || seconds > 3600) {
			t.Errorf("%s: 429 with Retry-After %q; the window is an hour", user, r.header.Get("Retry-After"))
		}
		lock.Lock()
		defer lock.Unlock()
		statuses[r.status]++
	})
	if statuses[http.StatusOK] != limit || statuses[http.StatusTooManyRequests] != size-limit {
		t.Errorf("%s: %v; want %d of 200 and %d of 429", user, statuses, limit, size-limit)
	}
	if reached := app.Reached() - before; reached != limit {
		t.Errorf("%s: %d requests reached the application, want %d", user, reached, limit)
	}
}
