package memory

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
)

// evaluate evaluates an operation of one rule.
func evaluateOne(t testing.TB, m *Store, op store.Op, r store.Rule) store.Answers {
	t.Helper()
	var a store.Answers
	p := &store.Plan{Op: op, Zone: time.UTC, Patience: 60_000, Sets: []store.Set{{Allows: true, Rules: []store.Rule{r}}}}
	if err := m.Evaluate(context.Background(), p, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

func seedOne(m *Store, op store.Op, r store.Rule, a *store.Answers) {
	m.Seed(&store.Plan{Op: op, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{r}}}}, a)
}

var lastRules = []store.Rule{
	{Return: 1, Method: store.Count, Time: 60, Count: 20, Weight: 1},
	{Return: 2, Method: store.Count, Time: store.Day, Count: 20, Weight: 1},
	{Return: 3, Method: store.Base, Time: 60, Base: 8, Count: 12, Weight: 1},
	{Return: 4, Method: store.Leak, Time: 60, Count: 20, Weight: 1},
	{Return: 5, Method: store.Token, Time: 60, Count: 10, Burst: 20, Weight: 1},
	{Return: 6, Method: store.Count, Unit: store.Hour, Count: 20, Weight: 1},
	{Return: 7, Method: store.Count, Time: 60, Count: 20, Weight: 1, Overdraft: true},
	{Return: 8, Method: store.Leak, Time: 60, Count: 20, Weight: 1, Overdraft: true},
	{Return: 9, Method: store.Token, Time: 60, Count: 10, Burst: 20, Weight: 3, Overdraft: true},
	{Return: 10, Method: store.Token, Time: 60, Count: 10, Burst: 20, Weight: 1, Wait: 30_000},
}

// TestLastStateIsWhereACounterStarts takes hits of one store at random times and
// gives its answers to another one, which must never have more remaining.
func TestLastStateIsWhereACounterStarts(t *testing.T) {
	for _, r := range lastRules {
		r.Subject = []byte("someone")
		random := rand.New(rand.NewPCG(1, uint64(r.Return)))
		now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMilli()
		from := New(Options{Clock: func() int64 { return now }})
		to := New(Options{Clock: func() int64 { return now }})
		for i := range 2000 {
			now += random.Int64N(4000)
			a := evaluateOne(t, from, store.Take, r)
			seedOne(to, store.Take, r, &a)
			if random.IntN(4) > 0 {
				continue
			}
			now += random.Int64N(10)
			want, got := evaluateOne(t, from, store.Browse, r).Sets[0], evaluateOne(t, to, store.Browse, r).Sets[0]
			if want.Daily == got.Daily && got.Remaining > want.Remaining || want.Decider >= 0 && got.Decider < 0 {
				t.Fatalf("method %d, answer %d: the other store reports %+v; want at most what remains in %+v", r.Method, i, got, want)
			}
			if r.Method == store.Count && got.Remaining != want.Remaining {
				t.Fatalf("method %d, answer %d: the other store reports %+v; want %+v", r.Method, i, got, want)
			}
		}
	}
}

// TestStatesOutOfOrder checks that an answer that arrives late does not raise
// what remains, and that a refund does.
func TestStatesOutOfOrder(t *testing.T) {
	for _, r := range lastRules {
		r.Subject = []byte("someone")
		now := int64(1_700_000_000_000)
		from := New(Options{Clock: func() int64 { return now }})
		to := New(Options{Clock: func() int64 { return now }})
		var answers []store.Answers
		for range 5 {
			now += 10
			answers = append(answers, evaluateOne(t, from, store.Take, r))
		}
		for i := range answers {
			seedOne(to, store.Take, r, &answers[len(answers)-1-i])
		}
		want := answers[len(answers)-1].Sets[0].Remaining
		if got := evaluateOne(t, to, store.Browse, r).Sets[0].Remaining; got > want {
			t.Errorf("method %d: %d remaining after answers in reverse order; want at most %d", r.Method, got, want)
		}
		to.Clear()
		seedOne(to, store.Take, r, &answers[len(answers)-1])
		refunded := evaluateOne(t, from, store.Refund, r)
		seedOne(to, store.Refund, r, &refunded)
		if got := evaluateOne(t, to, store.Browse, r).Sets[0].Remaining; got < want {
			t.Errorf("method %d: %d remaining after a refund; want at least %d", r.Method, got, want)
		}
	}
}

// TestLastStateRaisesCounters checks that hits counted here are kept, and that
// a smaller limit scales the hits.
func TestLastStateRaisesCounters(t *testing.T) {
	r := lastRules[0]
	r.Subject, r.Count = []byte("someone"), 400
	m := New(Options{Clock: func() int64 { return 1_700_000_000_000 }})
	for range 3 {
		evaluateOne(t, m, store.Take, r)
	}
	for _, c := range []struct{ remaining, count, want int64 }{
		{399, 400, 397}, // fewer hits than are counted here
		{300, 400, 300},
		{100, 200, 50}, // 300 of 400 are 150 of 200
	} {
		seedOne(m, store.Take, r, &store.Answers{Now: 1, Sets: []store.Answer{{Decider: -1, Limit: 400, Remaining: c.remaining, Reset: 5000}}})
		if c.count != 400 {
			m = seeded(m)
		}
		small := r
		small.Count = c.count
		if got := evaluateOne(t, m, store.Browse, small).Sets[0].Remaining; got != c.want {
			t.Errorf("%d of 400 remain in the other store: %d of %d remain here; want %d", c.remaining, got, c.count, c.want)
		}
	}
}

// seeded returns a store with the same states and without counters.
func seeded(m *Store) *Store {
	other := New(Options{Clock: m.clock})
	other.seed = m.seed
	other.last.Store(m.last.Load())
	return other
}

// TestStatesAreBounded floods the table: the states with the largest used part
// stay, and memory does not grow.
func TestStatesAreBounded(t *testing.T) {
	const total = stateShards * stateSets * stateWays
	m := New(Options{Clock: func() int64 { return 1_700_000_000_000 }})
	r := lastRules[0]
	record := func(i int, remaining int64) {
		r.Subject = binary.BigEndian.AppendUint64(nil, uint64(i))
		seedOne(m, store.Take, r, &store.Answers{Now: 1, Sets: []store.Answer{{Decider: -1, Limit: 20, Remaining: remaining, Reset: 5000}}})
	}
	const near = 200 // so few that hardly ever five of them are in one set
	for i := range near {
		record(i, 2)
	}
	for i := range 4 * total {
		record(near+i, 19)
	}
	lost := 0
	for i := range near {
		r.Subject = binary.BigEndian.AppendUint64(nil, uint64(i))
		if evaluateOne(t, m, store.Browse, r).Sets[0].Remaining != 2 {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d states near their limits were dropped for others far from theirs", lost, near)
	}
}

// BenchmarkRecord measures what an answer of another store costs: it must not
// allocate.
func BenchmarkRecord(b *testing.B) {
	m := New(Options{})
	r := lastRules[0]
	r.Subject = []byte("comment/ann@example.org")
	p := &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{r}}}}
	a := &store.Answers{Now: 1, Sets: []store.Answer{{Decider: -1, Limit: 20, Remaining: 7, Reset: 5000}}}
	b.ReportAllocs()
	for b.Loop() {
		m.Seed(p, a)
	}
}

func TestRecordingAStateDoesNotAllocate(t *testing.T) {
	m := New(Options{})
	r := lastRules[0]
	r.Subject = []byte("comment/ann@example.org")
	p := &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{r}}}}
	a := &store.Answers{Now: 1, Sets: []store.Answer{{Decider: -1, Limit: 20, Remaining: 7, Reset: 5000}}}
	if n := testing.AllocsPerRun(100, func() { m.Seed(p, a) }); n > 0 {
		t.Errorf("%v allocations per answer; want none", n)
	}
}
