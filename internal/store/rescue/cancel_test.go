package rescue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/koalagate/koalagate/internal/store"
)

// TestOverdraftsOfStarvedCallsAreCharged refuses starved calls in process: what an
// overdraft recorded is charged to Redis.
func TestOverdraftsOfStarvedCallsAreCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, redis := openFake(t)
		defer s.Close()
		charged := store.Rule{Subject: []byte("u"), Return: 1, Method: store.Token, Weight: 4, Time: 3600, Count: 3, Burst: 3, Overdraft: true}
		p := &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{charged}}}}
		redis.becomes(store.Starved, false, 0)
		var a store.Answers
		for range 2 {
			if err := s.Evaluate(context.Background(), p, &a); err != nil || a.Sets[0].Decider != 0 {
				t.Fatalf("%v, %+v", err, a.Sets)
			}
		}
		time.Sleep(time.Second)
		charged.Weight = 1
		peek := &store.Plan{Op: store.Peek, Zone: time.UTC, Sets: []store.Set{{Rules: []store.Rule{charged}}}}
		if err := redis.Evaluate(context.Background(), peek, &a); err != nil || a.Sets[0].Hits != 8 {
			t.Errorf("%v: Redis has %+v, want 8 hits", err, a.Sets)
		}
	})
}

// TestTurnsAreCanceledWhereTheyWereGiven cancels takes that Redis and the in-process
// store let wait, and one while Redis is unreachable.
func TestTurnsAreCanceledWhereTheyWereGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, redis := openFake(t)
		defer s.Close()
		rule := store.Rule{Subject: []byte("u"), Return: 1, Method: store.Token, Weight: 1, Time: 3600, Count: 3600, Burst: 1, Wait: 60_000}
		p := &store.Plan{Op: store.Take, Zone: time.UTC, Patience: 60_000, Sets: []store.Set{{Allows: true, Rules: []store.Rule{rule}}}}
		take := func() (a store.Answers) {
			t.Helper()
			if err := s.Evaluate(context.Background(), p, &a); err != nil || a.Sets[0].Decider >= 0 {
				t.Fatalf("%v, %+v", err, a.Sets)
			}
			return a
		}
		wants := func(what string, wait int64) (a store.Answers) {
			t.Helper()
			if a = take(); a.Wait != wait {
				t.Errorf("%s: a wait of %d ms, want %d", what, a.Wait, wait)
			}
			return a
		}
		take()
		second := wants("in Redis", 1000)
		if err := s.Cancel(context.Background(), p, &second); err != nil {
			t.Fatal(err)
		}
		third := wants("after a cancellation in Redis", 1000)

		redis.becomes(store.Unreachable, false, 0)
		s.suspend(errFake)
		if err := s.Cancel(context.Background(), p, &third); err != nil || third.Undo != nil {
			t.Errorf("a turn of Redis is canceled in rescue: %v", err)
		}
		local := take()
		before := local.Wait
		if !local.Degraded || before == 0 {
			t.Fatalf("in rescue: %+v", local)
		}
		if err := s.Cancel(context.Background(), p, &local); err != nil {
			t.Fatal(err)
		}
		wants("after a cancellation in process", before)
	})
}
