//go:build !race

package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/lease"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// TestDecisionsInProcessAllocateNothing holds the price of a decision from parts, and of a
// call without leases on its way to the next store.
func TestDecisionsInProcessAllocateNothing(t *testing.T) {
	shared := storetest.StartServer(t).Open(t)
	run := func(request func()) { request() }
	s := lease.New(shared, shared, lease.Options{Clock: func() time.Duration { return time.Hour }, Run: func(request func()) { run(request) }})
	rule := store.Rule{Subject: []byte("all"), Return: 1, Method: store.Count, Time: 3600, Count: 100_000, Lease: 200, Weight: 1}
	ctx, plan := context.Background(), take(rule)
	var a store.Answers
	for s.Stats().Held < 200 {
		if err := s.Evaluate(ctx, plan, &a); err != nil {
			t.Fatal(err)
		}
	}
	run = func(func()) {}
	calls := shared.Calls().Plans
	if n := testing.AllocsPerRun(100, func() { _ = s.Evaluate(ctx, plan, &a) }); n != 0 {
		t.Errorf("a decision from a part allocates %v times", n)
	}
	if more := shared.Calls().Plans - calls; more > 0 {
		t.Errorf("%d of the decisions were made by Redis", more)
	}

	next := memory.New(memory.Options{})
	defer next.Close()
	through := lease.New(next, shared, lease.Options{})
	defer through.Close()
	rule.Lease, rule.Return = 0, 2
	plain := take(rule)
	if n := testing.AllocsPerRun(100, func() { _ = through.Evaluate(ctx, plain, &a) }); n != 0 {
		t.Errorf("a decision without leases allocates %v times on its way to the next store", n)
	}
}
