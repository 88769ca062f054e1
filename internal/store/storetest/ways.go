package storetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
)

// Way is a set of optimizations of the Redis store. The answers are the same with
// every Way.
type Way struct {
	Name string
	Set  func(*redis.Options)
}

// On has all optimizations, which is the default of the store; Off has none.
var (
	On  = Way{"all on", func(*redis.Options) {}}
	Off = Way{"all off", Plain}
)

// Plain turns all optimizations off: each call is sent to Redis, alone.
func Plain(o *redis.Options) {
	o.Batching, o.Refusals, o.Receipts = redis.BatchOff, -1, -1
}

// Ways returns the Ways for a test of exactness: On and Off and, if every is true,
// the Ways that lack one optimization each.
func Ways(every bool) []Way {
	if !every {
		return []Way{On, Off}
	}
	return []Way{
		On,
		Off,
		{"pipeline", func(o *redis.Options) { o.Batching = redis.BatchPipeline }},
		{"no batches", func(o *redis.Options) { o.Batching = redis.BatchOff }},
		{"no refusals from memory", func(o *redis.Options) { o.Refusals = -1 }},
		{"no receipts from memory", func(o *redis.Options) { o.Receipts = -1 }},
	}
}

// Of returns how many of n rounds a long test runs with w: all with On and Off, a
// fifth with the other Ways.
func (w Way) Of(n int) int {
	if w.Name == On.Name || w.Name == Off.Name {
		return n
	}
	return n / 5
}

// InWays runs a test with each of the ways.
func InWays(t *testing.T, ways []Way, test func(t *testing.T, way Way)) {
	t.Helper()
	for _, way := range ways {
		t.Run(way.Name, func(t *testing.T) { test(t, way) })
	}
}

// InWaysAtOnce is InWays with parallel subtests, for tests that mostly wait.
func InWaysAtOnce(t *testing.T, ways []Way, test func(t *testing.T, way Way)) {
	t.Helper()
	InWays(t, ways, func(t *testing.T, way Way) {
		t.Parallel()
		test(t, way)
	})
}

// InTurn is several instances that share their counters and use different Ways, as
// while a change of settings is rolled out. The instances evaluate plans in turn.
type InTurn struct {
	Prefix string // of the keys
	stores []*redis.Store
	next   atomic.Int64
}

// Evaluate evaluates the plan on the next instance.
func (s *InTurn) Evaluate(ctx context.Context, p *store.Plan, a *store.Answers) error {
	return s.one().Evaluate(ctx, p, a)
}

// one returns the next instance.
func (s *InTurn) one() *redis.Store { return s.stores[s.next.Add(1)%int64(len(s.stores))] }

// Settle settles a receipt at the next instance, which may not have issued it.
func (s *InTurn) Settle(ctx context.Context, end *store.Settlement) (store.Settled, error) {
	return s.one().Settle(ctx, end)
}

// Renew renews a receipt at the next instance.
func (s *InTurn) Renew(ctx context.Context, r *store.Renewal) (store.Settled, error) {
	return s.one().Renew(ctx, r)
}

// Cancel gives back a take on the next instance.
func (s *InTurn) Cancel(ctx context.Context, p *store.Plan, a *store.Answers) error {
	return s.one().Cancel(ctx, p, a)
}

// Clear removes the counters.
func (s *InTurn) Clear(ctx context.Context) error { return s.stores[0].Clear(ctx) }

// OpenInTurn returns two stores in the server under one prefix, with On and Off.
// Neither remembers refusals: a refund by the other would end them only within a
// second.
func (s *Server) OpenInTurn(t testing.TB, change ...func(*redis.Options)) *InTurn {
	t.Helper()
	in := &InTurn{Prefix: fmt.Sprintf("turn%d", s.opened.Add(1))}
	for _, way := range Ways(false) {
		in.stores = append(in.stores, s.Open(t, append(change, way.Set, func(o *redis.Options) {
			o.Prefix, o.Refusals = in.Prefix, -1
		})...))
	}
	return in
}
