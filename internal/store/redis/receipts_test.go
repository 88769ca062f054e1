package redis_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

func TestReceipts(t *testing.T) {
	for _, way := range storetest.Ways(true) {
		t.Run(way.Name, func(t *testing.T) { storetest.RunReceipts(t, storetest.Redis(t, way.Set)) })
	}
}

// TestOwnReceiptsAreSettledInOneCall counts the script calls of settlements and renewals.
func TestOwnReceiptsAreSettledInOneCall(t *testing.T) {
	server := storetest.StartServer(t)
	s := server.Open(t)
	other := server.Open(t, func(o *redis.Options) { o.Prefix = s.Prefix() })
	held := store.Rule{Subject: []byte("u"), Return: 2, Method: store.Hold, Weight: 1, Time: 60, Count: 5}
	estimate := store.Rule{Subject: []byte("u"), Return: 1, Method: store.Count, Weight: 3, Time: 60, Count: 1000, Settle: 600}
	j := &storetest.Judge{Use: store.Use{Concerns: true, Given: true, Hits: 1}}
	for name, c := range map[string]struct {
		at     *redis.Store
		renews bool
		times  int
		calls  int64
		known  bool
	}{
		"settled by its instance":   {at: s, times: 1, calls: 1, known: true},
		"settled by another":        {at: other, times: 1, calls: 2, known: true},
		"settled twice":             {at: s, times: 2, calls: 2},
		"renewed by its instance":   {at: s, renews: true, times: 1, calls: 1, known: true},
		"renewed twice":             {at: s, renews: true, times: 2, calls: 2, known: true},
		"renewed twice by another":  {at: other, renews: true, times: 2, calls: 4, known: true},
		"settled twice by another":  {at: other, times: 2, calls: 3},
		"another one settles first": {at: nil, times: 1, calls: 2},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			var a store.Answers
			if err := s.Evaluate(ctx, &store.Plan{Op: store.Take, Now: now, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{estimate, held}}}}, &a); err != nil {
				t.Fatal(err)
			}
			settlement := &store.Settlement{Receipt: a.Receipt, Now: now, Zone: time.UTC, Judge: j}
			at := c.at
			if at == nil {
				if got, err := other.Settle(ctx, settlement); err != nil || !got.Known {
					t.Fatalf("%+v, %v", got, err)
				}
				at = s
			}
			before := at.Calls().Scripts
			var got store.Settled
			var err error
			for range c.times {
				if c.renews {
					got, err = at.Renew(ctx, &store.Renewal{Receipt: a.Receipt, Now: now})
				} else {
					got, err = at.Settle(ctx, settlement)
				}
			}
			if calls := at.Calls().Scripts - before; err != nil || got.Known != c.known || calls != c.calls {
				t.Errorf("known %v in %d calls, want %v in %d; error %v", got.Known, calls, c.known, c.calls, err)
			}
			_, _ = s.Settle(ctx, settlement) // so that few holds are left
		})
	}
}

// TestReceiptsAreSettledOnceByTwoInstances settles each receipt at once by the instance that
// made it and by another one, while takes go on: one of them is known, and the counter has
// the hits that it brought.
func TestReceiptsAreSettledOnceByTwoInstances(t *testing.T) {
	const receipts, mine, others = 64, 5, 7
	server := storetest.StartServer(t)
	s := server.Open(t)
	both := []*redis.Store{s, server.Open(t, func(o *redis.Options) { o.Prefix = s.Prefix() })}
	rule := store.Rule{Subject: []byte("u"), Return: 1, Method: store.Count, Weight: 3, Time: 3600, Count: 1 << 30, Settle: 600}
	evaluate := func(op store.Op, a *store.Answers) error {
		return s.Evaluate(context.Background(), &store.Plan{Op: op, Now: now, Zone: time.UTC, Sets: oneSet(rule)}, a)
	}
	var spent atomic.Int64
	var all sync.WaitGroup
	for range receipts {
		all.Go(func() {
			var a store.Answers
			if err := evaluate(store.Take, &a); err != nil {
				t.Error(err)
				return
			}
			var known atomic.Int64
			var group sync.WaitGroup
			for i := range 8 {
				group.Go(func() {
					use := store.Use{Concerns: true, Given: true, Hits: []int64{mine, others}[i%2]}
					got, err := both[i%2].Settle(context.Background(), &store.Settlement{Receipt: a.Receipt, Now: now, Zone: time.UTC, Judge: &storetest.Judge{Use: use}})
					if err != nil {
						t.Error(err)
					}
					if got.Known {
						known.Add(1)
						spent.Add(use.Hits)
					}
				})
			}
			group.Wait()
			if known.Load() != 1 {
				t.Errorf("%d of 8 settlements of one receipt are known, want 1", known.Load())
			}
		})
	}
	all.Wait()
	var a store.Answers
	if err := evaluate(store.Peek, &a); err != nil || a.Sets[0].Hits != spent.Load() {
		t.Errorf("%d hits are counted, want %d; error %v", a.Sets[0].Hits, spent.Load(), err)
	}
}
