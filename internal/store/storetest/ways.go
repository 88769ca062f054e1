package storetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
)

// Way is a way to Redis: which of the things that make it quick are on. What is
// answered is the same in all of them.
type Way struct {
	Name string
	Set  func(*redis.Options)
}

// On has all that makes Redis quick, as a store has unless it is told otherwise;
// Off has none of it.
var (
	On  = Way{"all on", func(*redis.Options) {}}
	Off = Way{"all off", Plain}
)

// Plain has a store do nothing for speed: each call is sent, by itself. What it
// answers is what a store with all of it answers.
func Plain(o *redis.Options) {
	o.Batching, o.NoCountPath, o.Refusals = redis.BatchOff, true, -1
}

// Ways are those that a test of exactness goes: On and Off, and with every the
// others too, which lack one thing each.
func Ways(every bool) []Way {
	if !every {
		return []Way{On, Off}
	}
	return []Way{
		On,
		Off,
		{"pipeline", func(o *redis.Options) { o.Batching = redis.BatchPipeline }},
		{"no batches", func(o *redis.Options) { o.Batching = redis.BatchOff }},
		{"no short way", func(o *redis.Options) { o.NoCountPath = true }},
		{"no refusals from memory", func(o *redis.Options) { o.Refusals = -1 }},
	}
}

// Of is how many of n rounds a long test goes this way: all of them where
// everything is on or off, a fifth where one thing is.
func (w Way) Of(n int) int {
	if w.Name == On.Name || w.Name == Off.Name {
		return n
	}
	return n / 5
}

// InWays runs a test in each of the ways.
func InWays(t *testing.T, ways []Way, test func(t *testing.T, way Way)) {
	t.Helper()
	for _, way := range ways {
		t.Run(way.Name, func(t *testing.T) { test(t, way) })
	}
}

// InWaysAtOnce does the same in some of the ways at a time, for tests that mostly
// wait.
func InWaysAtOnce(t *testing.T, ways []Way, test func(t *testing.T, way Way)) {
	t.Helper()
	InWays(t, ways, func(t *testing.T, way Way) {
		t.Parallel()
		test(t, way)
	})
}

// InTurn is instances that share their counters and go different ways, as while
// a change of settings rolls over them: each plan is the next one's.
type InTurn struct {
	Prefix string // of the keys
	stores []*redis.Store
	next   atomic.Int64
}

// Evaluate has the next instance carry out the plan.
func (s *InTurn) Evaluate(ctx context.Context, p *store.Plan, a *store.Answers) error {
	return s.stores[s.next.Add(1)%int64(len(s.stores))].Evaluate(ctx, p, a)
}

// Clear removes the counters.
func (s *InTurn) Clear(ctx context.Context) error { return s.stores[0].Clear(ctx) }

// OpenInTurn returns two stores in the server under one prefix, as On and as Off.
// Neither remembers refusals: what the other one gives back it would hear of
// within a second.
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
