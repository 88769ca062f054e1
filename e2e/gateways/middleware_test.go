package gateways_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/koalagate/koalagate"
	"github.com/koalagate/koalagate/e2e/internal/rig"
	"github.com/koalagate/koalagate/middleware"
)

// A program that decides in its own process, and gateways in front of other
// programs, share their counters through Redis.
func TestMiddlewareSharesCountersWithGateways(t *testing.T) {
	h := rig.NewFixture(t)
	rules, redis := h.File("rules.conf", rig.DoorRules), h.Redis()
	gateway := h.Nginx(h.App(), h.Koalagate("--rules", rules, "--redis", redis.URL()))
	gate, err := koalagate.Open(koalagate.Options{
		Rules: []string{rules}, Redis: redis.URL(),
		RedisOptions: koalagate.RedisOptions{Budget: 5 * time.Second}, // as in raceSettings
	})
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	program := httptest.NewServer(middleware.New(middleware.Options{Engine: gate.Engine()})(http.NotFoundHandler()))
	defer program.Close()

	passed := 0
	for i := range 12 {
		url := []string{gateway.URL, program.URL}[i%2]
		if r := rig.Send(t, "POST", url+"/api/comments", "X-User-Id: both"); r.Status != http.StatusTooManyRequests {
			passed++
		}
	}
	if passed != 5 {
		t.Errorf("%d of 12 requests passed; want 5", passed)
	}
}
