package memory

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/koalagate/koalagate/internal/store"
)

// TestSeededRefusalsHoldUntilTheirEnd checks that a store refuses a weight for as
// long as the seeded refusal says, and admits it then, although its own clock
// differs.
func TestSeededRefusalsHoldUntilTheirEnd(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		now := int64(1_793_505_600_000)
		clock := func() int64 { return now }
		skew := rapid.Int64Range(-5_000_000, 5_000_000).Draw(rt, "skew")
		source := New(Options{Clock: clock})
		seeded := New(Options{Clock: func() int64 { return now + skew }})
		r := store.Rule{
			Subject: []byte("u"), Return: 1, Method: store.Method(rapid.IntRange(1, 4).Draw(rt, "method")),
			Time: rapid.Int64Range(1, 100).Draw(rt, "time"), Count: rapid.Int64Range(1, 8).Draw(rt, "count"),
			Base: rapid.Int64Range(1, 4).Draw(rt, "base"), Burst: rapid.Int64Range(1, 8).Draw(rt, "burst"),
		}
		switch word := rapid.IntRange(0, 3).Draw(rt, "word"); {
		case word == 1 && r.Method != store.Base:
			r.Overdraft = true
		case word == 2 && (r.Method == store.Count || r.Method == store.Leak):
			r.Ban = rapid.Int64Range(1, 100).Draw(rt, "ban")
		case word == 2 && r.Method == store.Token:
			r.Wait = rapid.Int64Range(1, 10_000).Draw(rt, "wait")
		case word == 3 && r.Method == store.Count:
			r.Unit = rapid.SampledFrom([]store.Unit{store.Epoch, store.Minute, store.Hour}).Draw(rt, "unit")
		}
		var a store.Answers
		take := func(m *Store, weight int64) store.Answer {
			r.Weight = weight
			p := one(store.Take, 0, r)
			p.Patience = r.Wait
			if err := m.Evaluate(context.Background(), p, &a); err != nil {
				rt.Fatal(err)
			}
			return a.Sets[0]
		}
		for range 60 {
			now += rapid.Int64Range(0, 4000).Draw(rt, "move")
			weight := rapid.Int64Range(1, 3).Draw(rt, "weight")
			refusal := take(source, weight)
			seeded.Seed(one(store.Take, 0, r), &a)
			if refusal.Decider < 0 || refusal.Retry <= sameRefusal {
				continue
			}
			begin := now
			for _, after := range []int64{0, refusal.Retry / 2, refusal.Retry - 1 - sameRefusal} {
				now = begin + max(after, 0)
				r.Weight = weight
				if err := seeded.Evaluate(context.Background(), one(store.Browse, 0, r), &a); err != nil {
					rt.Fatal(err)
				}
				if a.Sets[0].Decider < 0 {
					rt.Fatalf("%+v was refused for %d ms, and %d ms later the seeded store admits it", r, refusal.Retry, now-begin)
				}
			}
			now = begin + refusal.Retry + sameRefusal
			if err := seeded.Evaluate(context.Background(), one(store.Browse, 0, r), &a); err != nil {
				rt.Fatal(err)
			}
			if a.Sets[0].Decider >= 0 {
				rt.Fatalf("%+v was refused for %d ms, and is still refused after that: %+v", r, refusal.Retry, a.Sets[0])
			}
			return
		}
	})
}

// TestSeededRefusalReplacesOlderHits refuses some milliseconds after hits have left, which an
// answer before has reported: the two states are nearly of the same age.
func TestSeededRefusalReplacesOlderHits(t *testing.T) {
	begin := int64(1_793_505_600_000)
	now := begin
	clock := func() int64 { return now }
	source, seeded := New(Options{Clock: clock}), New(Options{Clock: clock})
	r := store.Rule{Subject: []byte("u"), Return: 1, Method: store.Leak, Time: 3, Count: 6}
	var a store.Answers
	for _, take := range []struct{ at, weight int64 }{{0, 3}, {42, 1}, {1156, 1}, {2996, 1}, {3000, 1}, {3000, 3}} {
		now, r.Weight = begin+take.at, take.weight
		if err := source.Evaluate(t.Context(), one(store.Take, 0, r), &a); err != nil {
			t.Fatal(err)
		}
		seeded.Seed(one(store.Take, 0, r), &a)
	}
	if a.Sets[0].Retry != 42 {
		t.Fatalf("the last take got %+v; want a refusal for 42 ms", a.Sets[0])
	}
	for i, at := range []int64{3000 + 42 - 1 - sameRefusal, 3000 + 42 + sameRefusal} {
		refused := i == 0
		now = begin + at
		if err := seeded.Evaluate(t.Context(), one(store.Browse, 0, r), &a); err != nil {
			t.Fatal(err)
		}
		if got := a.Sets[0].Decider >= 0; got != refused {
			t.Errorf("at %d ms refused is %v; want %v: %+v", at, got, refused, a.Sets[0])
		}
	}
}

// TestSeededIdentitiesAreBounded seeds more refusals than a store may add.
func TestSeededIdentitiesAreBounded(t *testing.T) {
	m := New(Options{})
	a := &store.Answers{Sets: []store.Answer{{Limit: 1, Reset: 60_000, Retry: 60_000}}}
	for i := range 80_000 {
		m.Seed(one(store.Take, 1_000_000, perMinute(strconv.Itoa(i), 1)), a)
	}
	if kept := subjectsOf(m); kept > shards*maxSeeded || kept < shards*maxSeeded*9/10 {
		t.Errorf("%d identities are kept; want at most %d, and nearly as many", kept, shards*maxSeeded)
	}
	for i := range 100_000 { // an hour later
		m.Seed(one(store.Take, 5_000_000, perMinute(fmt.Sprint("late", i), 1)), a)
	}
	if got := subjectsOf(m); got > shards*maxSeeded {
		t.Errorf("%d identities are kept; want at most %d", got, shards*maxSeeded)
	}
	s := &m.shards[0]
	old := 0
	for subject := range s.subjects {
		if subject[0] != 'l' {
			old++
		}
	}
	if old > len(s.subjects)/4 {
		t.Errorf("%d of %d identities of a shard have ended; want most of them dropped", old, len(s.subjects))
	}
}

// subjectsOf returns the number of subjects that have counters.
func subjectsOf(m *Store) int {
	n := 0
	for i := range m.shards {
		n += len(m.shards[i].subjects)
	}
	return n
}

// TestForgetCountedKeepsSeededRefusals checks what remains once Redis has been
// reachable for long enough: hits that were counted in process are forgotten, but
// refusals of Redis are kept, or they would be admitted in its next absence.
func TestForgetCountedKeepsSeededRefusals(t *testing.T) {
	now := int64(1_793_505_600_000)
	m := New(Options{Clock: func() int64 { return now }})
	var a store.Answers
	take := func(op store.Op, r store.Rule) store.Answer {
		t.Helper()
		if err := m.Evaluate(context.Background(), one(op, 0, r), &a); err != nil {
			t.Fatal(err)
		}
		return a.Sets[0]
	}
	refused, mixed, counted := perMinute("refused", 1), perMinute("mixed", 1), perMinute("counted", 1)
	for _, r := range []store.Rule{refused, mixed} {
		m.Seed(one(store.Take, 0, r), &store.Answers{Sets: []store.Answer{{Limit: 1, Reset: 50_000, Retry: 50_000}}})
	}
	other := perMinute("refused", 1)
	other.Return++ // of the same identity
	take(store.Take, other)
	take(store.Take, counted)
	take(store.Update, mixed) // counted in process
	take(store.Take, refused) // refused, so it counts nothing
	for _, c := range []struct {
		when string
		want [4]bool // whether each refuses
	}{{"before", [4]bool{true, true, true, true}}, {"after", [4]bool{true, false, false, false}}} {
		for i, r := range []store.Rule{refused, mixed, counted, other} {
			if got := take(store.Browse, r).Decider >= 0; got != c.want[i] {
				t.Errorf("%s: rule %d of %s refuses: %v; want %v", c.when, r.Return, r.Subject, got, c.want[i])
			}
		}
		m.ForgetCounted()
	}
	if n := m.Identities(); n != 1 {
		t.Errorf("%d identities are kept; want the one that was seeded", n)
	}
}

// TestSeededBans checks that a ban of another store holds here until its end, and that
// nothing of what was counted before returns then.
func TestSeededBans(t *testing.T) {
	for _, r := range []store.Rule{
		{Return: 1, Method: store.Count, Time: 600, Count: 1, Weight: 1, Ban: 30},
		{Return: 2, Method: store.Leak, Time: 600, Count: 1, Weight: 1, Ban: 30},
		{Return: 3, Method: store.Count, Unit: store.Month, Count: 1, Weight: 1, Ban: 30},
	} {
		r.Subject = []byte("u")
		now := int64(1_793_505_600_000)
		clock := func() int64 { return now }
		from, to := New(Options{Clock: clock}), New(Options{Clock: clock})
		answer := func(op store.Op) store.Answer { // of the other store, which seeds this one
			a := evaluateOne(t, from, op, r)
			seedOne(to, op, r, &a)
			return a.Sets[0]
		}
		evaluateOne(t, to, store.Take, r) // counted here too
		if a := answer(store.Take); a.Decider >= 0 {
			t.Fatalf("%+v: %+v; want it admitted", r, a)
		}
		if a := answer(store.Take); !a.Banned {
			t.Fatalf("%+v: %+v; want a ban", r, a)
		}
		r.Weight = 0
		now += 29_999
		if a := evaluateOne(t, to, store.Take, r).Sets[0]; !a.Banned || a.Retry != 1 || a.Decider != 0 {
			t.Errorf("%+v: %+v; want it banned for a millisecond more", r, a)
		}
		r.Weight = 1
		now++
		if a := evaluateOne(t, to, store.Take, r).Sets[0]; a.Decider >= 0 {
			t.Errorf("%+v: %+v; want it admitted after the ban", r, a)
		}
		now = 1_793_505_600_000 + 60_000
		answer(store.Take)
		answer(store.Take)
		answer(store.Reset)
		if a := evaluateOne(t, to, store.Take, r).Sets[0]; a.Decider >= 0 {
			t.Errorf("%+v: %+v; want it admitted after a reset lifted the ban", r, a)
		}
	}
}

// TestSharedCountersBanNobody checks that a subject that shares a counter in a full
// store bans none of the others.
func TestSharedCountersBanNobody(t *testing.T) {
	s := newClocked(1)
	r := store.Rule{Return: 1, Method: store.Count, Time: 10, Count: 1, Weight: 1, Ban: 600}
	for i := range 2000 {
		r.Subject = fmt.Appendf(nil, "%d", i%1000)
		s.admits(t, store.Take, r)
	}
	banned := 0
	for i := range 1000 {
		r.Subject = fmt.Appendf(nil, "%d", i)
		s.admits(t, store.Browse, r)
		if s.a.Sets[0].Banned {
			banned++
		}
	}
	if banned > shards {
		t.Errorf("%d identities are banned; want at most the %d with counters of their own", banned, shards)
	}
	s.now += 10_000
	r.Subject = []byte("another")
	if !s.admits(t, store.Browse, r) {
		t.Error("an identity that shares a counter stays refused after its window")
	}
}

func BenchmarkSeed(b *testing.B) {
	m := New(Options{})
	p, a := one(store.Take, 0, perMinute("u", 1)), &store.Answers{Sets: []store.Answer{{Limit: 1, Reset: 60_000, Retry: 60_000}}}
	b.ReportAllocs()
	for b.Loop() {
		m.Seed(p, a)
	}
}

// evaluateOne evaluates an operation of one rule.
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
