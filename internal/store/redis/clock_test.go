package redis_test

import (
	"context"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// TestClockJumpsAdmitNothingTooMuch checks what docs/reliability.md states about
// clocks that jump, for every method, in Redis and in process. A step back never
// admits a refused identity, and prolongs its refusal at most by the size of the
// step. A step forward closes windows.
func TestClockJumpsAdmitNothingTooMuch(t *testing.T) {
	const hour = 3_600_000
	methods := map[string]store.Rule{
		"count":     {Return: 1, Method: store.Count, Time: 60, Count: 3, Weight: 1},
		"count day": {Return: 2, Method: store.Count, Time: store.Day, Count: 3, Weight: 1},
		"base":      {Return: 3, Method: store.Base, Time: 60, Base: 1, Count: 3, Weight: 1},
		"leak":      {Return: 4, Method: store.Leak, Time: 60, Count: 3, Weight: 1},
		"token":     {Return: 5, Method: store.Token, Time: 60, Count: 1, Burst: 3, Weight: 1},
	}
	clock := int64(now)
	local := memory.New(memory.Options{Clock: func() int64 { return clock }})
	defer local.Close()
	server := storetest.StartServer(t)
	stores := map[string]store.Store{"memory": local, "redis": server.Open(t, func(o *redis.Options) { o.Linger = 48 * time.Hour })}
	for kind, s := range stores {
		for name, rule := range methods {
			rule.Subject = []byte("u")
			take := func(at int64) (admitted bool, retry int64) {
				t.Helper()
				clock = at
				p := &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{rule}}}}
				if kind == "redis" { // its own clock is the machine's
					p.Now = at
				}
				var a store.Answers
				if err := s.Evaluate(context.Background(), p, &a); err != nil {
					t.Fatal(err)
				}
				return a.Sets[0].Decider < 0, a.Sets[0].Retry
			}
			for range 10 {
				take(now)
			}
			admitted, retry := take(now)
			if admitted {
				t.Fatalf("%s, %s: ten hits fit", kind, name)
			}
			back, later := take(now - hour)
			if back || later < retry || later > retry+hour {
				t.Errorf("%s, %s: an hour back: admitted %v, retry in %d ms; before the step in %d", kind, name, back, later, retry)
			}
			if admitted, _ := take(now + retry - 1); admitted {
				t.Errorf("%s, %s: admitted in the open window after the clock was corrected", kind, name)
			}
			if admitted, _ := take(now + retry); !admitted {
				t.Errorf("%s, %s: refused after the end of the window", kind, name)
			}
			forward := int64(now + 25*hour)
			if admitted, _ := take(forward); !admitted {
				t.Errorf("%s, %s: refused after a step forward over all windows", kind, name)
			}
			for range 10 {
				take(forward)
			}
			if admitted, _ := take(now + retry); admitted {
				t.Errorf("%s, %s: admitted after the clock steps back again", kind, name)
			}
		}
	}
}
