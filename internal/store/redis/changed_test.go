package redis_test

import (
	"context"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// asked is a question to a counter: a take of weight n so many ms after noon,
// and what is left then of which limit, until when; refused if it does not fit.
type asked struct {
	at      int64
	rule    store.Rule
	n       int64
	left    int64
	reset   int64
	refused bool
}

// TestChangedThresholds has rules whose thresholds change as a reload changes
// them, while something is counted. docs/exactness.md tells the same.
func TestChangedThresholds(t *testing.T) {
	count := func(seconds, count int64) store.Rule { return changed(store.Count, seconds, count, 0, 0) }
	base := func(base, seconds, count int64) store.Rule { return changed(store.Base, seconds, count, base, 0) }
	leak := func(seconds, count int64) store.Rule { return changed(store.Leak, seconds, count, 0, 0) }
	token := func(seconds, count, burst int64) store.Rule { return changed(store.Token, seconds, count, 0, burst) }
	const untilMidnight = 12 * 3_600_000
	tables := map[string][]asked{
		"a lowered count holds at once": {
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
		"a lowered base counts from then on": {
			{0, base(9, 60, 1), 4, 5, untilMidnight, false}, {1, base(2, 60, 1), 1, 0, 60_000, false}, {2, base(2, 60, 1), 1, 0, 59_999, true},
		},
		"the second window keeps its end, too": {
			{0, base(1, 60, 2), 1, 1, 60_000, false}, {1000, base(1, 600, 2), 1, 0, 59_000, false},
		},
		"the sliding time is that of now": {
			{0, leak(60, 5), 1, 4, 60_000, false},
			{10_000, leak(60, 5), 1, 3, 60_000, false},
			{15_000, leak(10, 5), 0, 4, 5000, false},
			{15_000, leak(3600, 5), 0, 3, 3_595_000, false},
		},
		"what left the sliding time does not come back": {
			{0, leak(10, 5), 3, 2, 10_000, false}, {10_000, leak(3600, 5), 0, 5, 0, false},
		},
		"nor what a change saw leave": {
			{0, leak(60, 5), 1, 4, 60_000, false}, {1000, leak(1, 5), 1, 4, 1000, false}, {1500, leak(60, 5), 0, 4, 59_500, false},
		},
		"whole tokens stay what they are": {
			{0, token(10, 1, 5), 3, 2, 30_000, false}, {0, token(20, 1, 5), 0, 2, 60_000, false},
		},
		"a begun token is missing": {
			{0, token(10, 1, 5), 3, 2, 30_000, false}, {5000, token(10, 1, 5), 1, 1, 35_000, false}, {5000, token(20, 1, 5), 0, 1, 80_000, false},
		},
		"a bucket refills at the pace of now since it was used": {
			{0, token(10, 1, 5), 3, 2, 30_000, false}, {10_000, token(10, 2, 5), 0, 4, 5000, false},
		},
		"a bucket that was full is full": {
			{0, token(1, 1, 5), 3, 2, 3000, false}, {3000, token(3600, 1, 5), 0, 5, 0, false},
		},
		"what is missing stays missing in a larger bucket": {
			{0, token(10, 1, 5), 3, 2, 30_000, false}, {0, token(10, 1, 9), 0, 6, 30_000, false},
		},
		"and a smaller one is empty at most": {
			{0, token(10, 1, 5), 4, 1, 40_000, false}, {0, token(10, 1, 2), 1, 0, 20_000, true},
		},
		"another method starts afresh, and finds its own again": {
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
						t.Errorf("question %d: %d are left until %d, refused %v; want %d, %d, %v", i, got.Remaining, got.Reset, got.Decider >= 0, q.left, q.reset, q.refused)
					}
				}
			})
		}
	}
}

func changed(m store.Method, seconds, count, base, burst int64) store.Rule {
	return store.Rule{Subject: []byte("u"), Return: 1, Method: m, Time: seconds, Count: count, Base: base, Burst: burst}
}
