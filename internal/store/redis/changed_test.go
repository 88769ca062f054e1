package redis_test

import (
	"context"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// takeStep is a take of weight n, at ms after noon, with the expected answer.
type takeStep struct {
	at      int64
	rule    store.Rule
	n       int64
	left    int64
	reset   int64
	refused bool
}

// TestChangedThresholds changes the thresholds of rules, as a reload does, while
// hits are counted. docs/exactness.md states the same.
func TestChangedThresholds(t *testing.T) {
	count := func(seconds, count int64) store.Rule { return changed(store.Count, seconds, count, 0, 0) }
	base := func(base, seconds, count int64) store.Rule { return changed(store.Base, seconds, count, base, 0) }
	leak := func(seconds, count int64) store.Rule { return changed(store.Leak, seconds, count, 0, 0) }
	token := func(seconds, count, burst int64) store.Rule { return changed(store.Token, seconds, count, 0, burst) }
	const untilMidnight = 12 * 3_600_000
	tables := map[string][]takeStep{
		"a lowered count applies at once": {
			{0, count(60, 5), 4, 1, 60_000, false}, {1, count(60, 3), 1, 0, 59_999, true}, {2, count(60, 6), 1, 1, 59_998, false},
		},
		"an open window keeps its end": {
			{0, count(60, 5), 1, 4, 60_000, false},
			{1000, count(600, 5), 1, 3, 59_000, false},
			{2000, count(2, 5), 1, 2, 58_000, false},
			{60_000, count(2, 5), 1, 4, 2000, false},
		},
		"a window and the day are the same counter": {
			{0, count(store.Day, 5), 1, 4, untilMidnight, false}, {1000, count(60, 5), 1, 3, untilMidnight - 1000, false},
		},
		"a raised base is free at once": {
			{0, base(1, 60, 1), 1, 0, 60_000, false},
			{1, base(1, 60, 1), 1, 0, 59_999, true},
			{2, base(3, 60, 1), 1, 1, untilMidnight - 2, false},
		},
		"a lowered base applies to later hits": {
			{0, base(9, 60, 1), 4, 5, untilMidnight, false}, {1, base(2, 60, 1), 1, 0, 60_000, false}, {2, base(2, 60, 1), 1, 0, 59_999, true},
		},
		"the second window keeps its end, too": {
			{0, base(1, 60, 2), 1, 1, 60_000, false}, {1000, base(1, 600, 2), 1, 0, 59_000, false},
		},
		"the current sliding time applies": {
			{0, leak(60, 5), 1, 4, 60_000, false},
			{10_000, leak(60, 5), 1, 3, 60_000, false},
			{15_000, leak(10, 5), 0, 4, 5000, false},
			{15_000, leak(3600, 5), 0, 3, 3_595_000, false},
		},
		"hits that left do not return": {
			{0, leak(10, 5), 3, 2, 10_000, false}, {10_000, leak(3600, 5), 0, 5, 0, false},
		},
		"nor hits that left during a change": {
			{0, leak(60, 5), 1, 4, 60_000, false}, {1000, leak(1, 5), 1, 4, 1000, false}, {1500, leak(60, 5), 0, 4, 59_500, false},
		},
		"whole tokens stay": {
			{0, token(10, 1, 5), 3, 2, 30_000, false}, {0, token(20, 1, 5), 0, 2, 60_000, false},
		},
		"a partly refilled token is missing": {
			{0, token(10, 1, 5), 3, 2, 30_000, false}, {5000, token(10, 1, 5), 1, 1, 35_000, false}, {5000, token(20, 1, 5), 0, 1, 80_000, false},
		},
		"a bucket refills at the current pace since its last use": {
			{0, token(10, 1, 5), 3, 2, 30_000, false}, {10_000, token(10, 2, 5), 0, 4, 5000, false},
		},
		"a full bucket stays full": {
			{0, token(1, 1, 5), 3, 2, 3000, false}, {3000, token(3600, 1, 5), 0, 5, 0, false},
		},
		"a larger bucket keeps its level": {
			{0, token(10, 1, 5), 3, 2, 30_000, false}, {0, token(10, 1, 9), 0, 2, 70_000, false},
		},
		"a smaller bucket is at most full": {
			{0, token(10, 1, 5), 1, 4, 10_000, false}, {0, token(10, 1, 2), 1, 1, 10_000, false}, {0, token(10, 1, 2), 2, 1, 10_000, true},
		},
		"another method has a counter of its own": {
			{0, count(60, 1), 1, 0, 60_000, false}, {1, leak(60, 1), 1, 0, 60_000, false}, {2, count(60, 1), 1, 0, 59_998, true},
		},
	}
	stores := map[string]func(*testing.T) store.Store{
		"memory": func(t *testing.T) store.Store {
			m := memory.New(memory.Options{})
			t.Cleanup(m.Close)
			return m
		},
		"redis": storetest.Redis(t),
	}
	for name, table := range tables {
		for kind, open := range stores {
			t.Run(name+"/"+kind, func(t *testing.T) {
				s := open(t)
				for i, q := range table {
					q.rule.Weight = q.n
					var a store.Answers
					p := &store.Plan{Op: store.Take, Now: now + q.at, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{q.rule}}}}
					if err := s.Evaluate(context.Background(), p, &a); err != nil {
						t.Fatal(err)
					}
					got := a.Sets[0]
					if got.Remaining != q.left || got.Reset != q.reset || (got.Decider >= 0) != q.refused {
						t.Errorf("step %d: remaining %d, reset %d, refused %v; want %d, %d, %v", i, got.Remaining, got.Reset, got.Decider >= 0, q.left, q.reset, q.refused)
					}
				}
			})
		}
	}
}

func changed(m store.Method, seconds, count, base, burst int64) store.Rule {
	return store.Rule{Subject: []byte("u"), Return: 1, Method: m, Time: seconds, Count: count, Base: base, Burst: burst}
}
