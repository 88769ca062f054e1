package lease_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/lease"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// take returns a take of rules, which have weights.
func take(rules ...store.Rule) *store.Plan {
	return &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: rules}}}
}

// TestEveryHitIsAccountedFor has callers of three instances use up two limits at once.
// When the instances have closed, what they gave back can be taken: then exactly the
// limits were admitted, but for hits that a step had put back when their era was over.
func TestEveryHitIsAccountedFor(t *testing.T) {
	t.Parallel()
	rules := []store.Rule{
		{Subject: []byte("all"), Return: 1, Method: store.Count, Time: 3600, Count: 6000, Lease: 200, Weight: 1},
		{Subject: []byte("all"), Return: 2, Method: store.Token, Time: 31_622_400, Count: 1, Burst: 4000, Lease: 100, Weight: 1},
	}
	shared := storetest.StartServer(t).Open(t, func(o *redis.Options) { o.Refusals = -1 })
	var admitted [2]atomic.Int64
	var spent, lost int64
	var instances []*lease.Store
	for range 3 {
		instances = append(instances, lease.New(shared, shared, lease.Options{}))
	}
	var callers sync.WaitGroup
	for i := range 12 {
		s := instances[i%3]
		callers.Go(func() {
			var a store.Answers
			for n := range 1200 {
				p := take(rules[n%2])
				if n%5 == 0 {
					p = take(rules...)
				}
				if err := s.Evaluate(context.Background(), p, &a); err != nil {
					t.Error(err)
					return
				}
				for _, r := range p.Sets[0].Rules {
					if a.Sets[0].Decider < 0 {
						admitted[r.Return-1].Add(1)
					}
				}
			}
		})
	}
	callers.Wait()
	for _, s := range instances {
		s.Close()
		stats := s.Stats()
		spent, lost = spent+stats.Spent, lost+stats.Lost
		if stats.Granted != stats.Spent+stats.Returned+stats.Lost {
			t.Errorf("an instance got %d hits, spent %d, returned %d and lost %d", stats.Granted, stats.Spent, stats.Returned, stats.Lost)
		}
	}
	if spent == 0 {
		t.Error("no hit was spent from a part")
	}
	total := int64(0)
	for i, limit := range []int64{6000, 4000} {
		var a store.Answers
		for a.Sets == nil || a.Sets[0].Decider < 0 {
			if err := shared.Evaluate(context.Background(), take(rules[i]), &a); err != nil {
				t.Fatal(err)
			}
			if a.Sets[0].Decider < 0 {
				admitted[i].Add(1)
			}
		}
		got := admitted[i].Load()
		if total += got; got > limit {
			t.Errorf("%d hits of rule %d were admitted in all, want %d", got, i+1, limit)
		}
	}
	if total+lost != 10_000 {
		t.Errorf("%d hits were admitted and %d lost, want 10 000 together", total, lost)
	}
	t.Logf("%d hits spent from parts", spent)
}

// TestPartsAreSpentWhileRedisIsAway kills Redis: the part is spent, and then calls fail,
// which in koalagate is the turn of rescue.
func TestPartsAreSpentWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t)
	shared, err := redis.Open(redis.Options{URL: server.URL(), Budget: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	now := atomic.Int64{}
	s := lease.New(shared, shared, lease.Options{Clock: func() time.Duration { return time.Duration(now.Load()) }, Run: func(request func()) { request() }})
	defer s.Close()
	rule := store.Rule{Subject: []byte("all"), Return: 1, Method: store.Count, Time: 3600, Count: 1000, Lease: 100, Weight: 1}
	var a store.Answers
	for s.Stats().Held < 20 { // the clock stands still: the demand grows
		if err := s.Evaluate(context.Background(), take(rule), &a); err != nil {
			t.Fatal(err)
		}
	}
	server.Kill()
	held := s.Stats().Held
	for n := range held {
		if err := s.Evaluate(context.Background(), take(rule), &a); err != nil || a.Sets[0].Decider >= 0 {
			t.Fatalf("take %d of %d held: %v, %+v", n+1, held, err, a.Sets)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := s.Evaluate(ctx, take(rule), &a); err == nil {
		t.Error("a take without a part was answered without Redis")
	}
}

// TestEarlyRefusalsAreNotRepeated lets an instance give back what another one was refused
// for: the other one, which repeats refusals without Redis, admits at once.
func TestEarlyRefusalsAreNotRepeated(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t)
	prefix := func(o *redis.Options) { o.Prefix = "early" }
	holding, other := server.Open(t, prefix), server.Open(t, prefix)
	s := lease.New(holding, holding, lease.Options{
		Time: time.Hour, Clock: func() time.Duration { return time.Hour }, Run: func(request func()) { request() },
	})
	rule := store.Rule{Subject: []byte("all"), Return: 1, Method: store.Count, Time: 3600, Count: 1000, Lease: 200, Weight: 1}
	var a store.Answers
	for s.Stats().Held < 20 {
		if err := s.Evaluate(context.Background(), take(rule), &a); err != nil {
			t.Fatal(err)
		}
	}
	taken := int64(0)
	for ; ; taken++ {
		if err := other.Evaluate(context.Background(), take(rule), &a); err != nil {
			t.Fatal(err)
		}
		if a.Sets[0].Decider >= 0 {
			break
		}
	}
	if !a.Sets[0].Early {
		t.Fatalf("refused after %d hits, and not because of what is held: %+v", taken, a.Sets[0])
	}
	s.Close()
	if err := other.Evaluate(context.Background(), take(rule), &a); err != nil || a.Sets[0].Decider >= 0 {
		t.Errorf("after the holder has given back: %v, %+v", err, a.Sets[0])
	}
}

// lender grants parts that end after a time, in ms.
type lender int64

func (n lender) Lease(_ context.Context, l *store.Lease) (store.Grant, error) {
	return store.Grant{Era: 1, Now: 1, Ends: 1 + int64(n), Granted: l.Ask, Remaining: 1000, Reset: 3_600_000}, nil
}

// TestPartEndsWhenRedisExpectsIt grants parts that end before the time that was asked for.
func TestPartEndsWhenRedisExpectsIt(t *testing.T) {
	t.Parallel()
	next := memory.New(memory.Options{})
	defer next.Close()
	now := time.Hour
	s := lease.New(next, lender(100), lease.Options{Clock: func() time.Duration { return now }, Run: func(request func()) { request() }})
	rule := store.Rule{Subject: []byte("all"), Return: 1, Method: store.Count, Time: 3600, Count: 1000, Lease: 100, Weight: 1}
	var a store.Answers
	for range 4 {
		if err := s.Evaluate(context.Background(), take(rule), &a); err != nil {
			t.Fatal(err)
		}
	}
	if held := s.Stats().Held; held != 4 {
		t.Fatalf("%d hits held, want 4", held)
	}
	if now += 100 * time.Millisecond; s.Stats().Held != 0 {
		t.Error("a part lasts longer than Redis expects")
	}
}
