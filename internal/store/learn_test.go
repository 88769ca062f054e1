package store

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// A store that learns of a refusal refuses the same weight for as long as the
// refusal said, and then admits it, whatever its own clock shows.
func TestLearntRefusalsHoldUntilTheirEnd(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		now := int64(1_793_505_600_000)
		clock := func() int64 { return now }
		skew := rapid.Int64Range(-5_000_000, 5_000_000).Draw(rt, "skew")
		known := NewMemory(MemoryOptions{Clock: clock})
		learns := NewMemory(MemoryOptions{Clock: func() int64 { return now + skew }})
		r := Rule{
			Subject: []byte("u"), Return: 1, Method: Method(rapid.IntRange(1, 4).Draw(rt, "method")),
			Time: rapid.Int64Range(1, 100).Draw(rt, "time"), Count: rapid.Int64Range(1, 8).Draw(rt, "count"),
			Base: rapid.Int64Range(1, 4).Draw(rt, "base"), Burst: rapid.Int64Range(1, 8).Draw(rt, "burst"),
		}
		var a Answers
		take := func(m *Memory, weight int64) Answer {
			r.Weight = weight
			if err := m.Evaluate(context.Background(), one(Take, 0, r), &a); err != nil {
				rt.Fatal(err)
			}
			return a.Sets[0]
		}
		for range 60 {
			now += rapid.Int64Range(0, 4000).Draw(rt, "move")
			weight := rapid.Int64Range(1, 3).Draw(rt, "weight")
			refusal := take(known, weight)
			learns.learn(one(Take, 0, r), &a)
			if refusal.Decider < 0 || refusal.Retry <= sameRefusal {
				continue
			}
			begin := now
			for _, after := range []int64{0, refusal.Retry / 2, refusal.Retry - 1 - sameRefusal} {
				now = begin + max(after, 0)
				r.Weight = weight
				if err := learns.Evaluate(context.Background(), one(Browse, 0, r), &a); err != nil {
					rt.Fatal(err)
				}
				if a.Sets[0].Decider < 0 {
					rt.Fatalf("%+v was refused for %d ms, and %d ms later the store that learnt of it admits it", r, refusal.Retry, now-begin)
				}
			}
			now = begin + refusal.Retry + sameRefusal
			if err := learns.Evaluate(context.Background(), one(Browse, 0, r), &a); err != nil {
				rt.Fatal(err)
			}
			if a.Sets[0].Decider >= 0 {
				rt.Fatalf("%+v was refused for %d ms, and is refused still after that: %+v", r, refusal.Retry, a.Sets[0])
			}
			return
		}
	})
}

// What is learnt is bounded, however many are refused.
func TestLearntIdentitiesAreBounded(t *testing.T) {
	m := NewMemory(MemoryOptions{})
	a := &Answers{Sets: []Answer{{Limit: 1, Reset: 60_000, Retry: 60_000}}}
	for i := range 80_000 {
		m.learn(one(Take, 1_000_000, perMinute(strconv.Itoa(i), 1)), a)
	}
	if kept := subjectsOf(m); kept > shards*maxLearnt || kept < shards*maxLearnt*9/10 {
		t.Errorf("%d identities are kept; want at most %d, and nearly as many", kept, shards*maxLearnt)
	}
	for i := range 100_000 { // an hour later
		m.learn(one(Take, 5_000_000, perMinute(fmt.Sprint("late", i), 1)), a)
	}
	if got := subjectsOf(m); got > shards*maxLearnt {
		t.Errorf("%d identities are kept; want at most %d", got, shards*maxLearnt)
	}
	s := &m.shards[0]
	old := 0
	for subject := range s.subjects {
		if subject[0] != 'l' {
			old++
		}
	}
	if old > len(s.subjects)/4 {
		t.Errorf("%d of %d identities of a shard are over; want most of them gone", old, len(s.subjects))
	}
}

func subjectsOf(m *Memory) int {
	n := 0
	for i := range m.shards {
		n += len(m.shards[i].subjects)
	}
	return n
}

// Once Redis is back for long enough, what was counted in its place is forgotten.
// What it had refused is not: it would be admitted when Redis goes away again.
func TestLearntRefusalsOutliveWhatWasCounted(t *testing.T) {
	now := int64(1_793_505_600_000)
	m := NewMemory(MemoryOptions{Clock: func() int64 { return now }})
	var a Answers
	take := func(op Op, r Rule) Answer {
		t.Helper()
		if err := m.Evaluate(context.Background(), one(op, 0, r), &a); err != nil {
			t.Fatal(err)
		}
		return a.Sets[0]
	}
	refused, mixed, counted := perMinute("refused", 1), perMinute("mixed", 1), perMinute("counted", 1)
	for _, r := range []Rule{refused, mixed} {
		m.learn(one(Take, 0, r), &Answers{Sets: []Answer{{Limit: 1, Reset: 50_000, Retry: 50_000}}})
	}
	other := perMinute("refused", 1)
	other.Return++ // of the same identity
	take(Take, other)
	take(Take, counted)
	take(Update, mixed) // in place of Redis
	take(Take, refused) // refused: that counts nothing
	for _, c := range []struct {
		when string
		want [4]bool // whether each refuses
	}{{"before", [4]bool{true, true, true, true}}, {"after", [4]bool{true, false, false, false}}} {
		for i, r := range []Rule{refused, mixed, counted, other} {
			if got := take(Browse, r).Decider >= 0; got != c.want[i] {
				t.Errorf("%s: rule %d of %s refuses: %v; want %v", c.when, r.Return, r.Subject, got, c.want[i])
			}
		}
		m.clearCounted()
	}
	if n := m.Identities(); n != 1 {
		t.Errorf("%d identities are kept; want the one that was learnt", n)
	}
}

func TestShareOfLimits(t *testing.T) {
	for _, c := range []struct {
		name  string
		rule  Rule
		share float64
		want  Rule
	}{
		{"a quarter", Rule{Method: Count, Count: 100, Weight: 1}, 0.25, Rule{Method: Count, Count: 25, Weight: 1}},
		{"rounded down", Rule{Method: Leak, Count: 99, Weight: 1}, 0.25, Rule{Method: Leak, Count: 24, Weight: 1}},
		{"never none", Rule{Method: Count, Count: 2, Weight: 1}, 0.25, Rule{Method: Count, Count: 1, Weight: 1}},
		{"but none stays none", Rule{Method: Count, Count: 0, Weight: 1}, 0.25, Rule{Method: Count, Count: 0, Weight: 1}},
		{"room for the request", Rule{Method: Count, Count: 10, Weight: 5}, 0.25, Rule{Method: Count, Count: 5, Weight: 5}},
		{"no more room than the limit has", Rule{Method: Count, Count: 10, Weight: 50}, 0.25, Rule{Method: Count, Count: 10, Weight: 50}},
		{"base, both of its windows", Rule{Method: Base, Base: 8, Count: 4, Weight: 1}, 0.5, Rule{Method: Base, Base: 4, Count: 2, Weight: 1}},
		{"token, its bucket and its flow", Rule{Method: Token, Burst: 20, Count: 10, Weight: 1}, 0.25, Rule{Method: Token, Burst: 5, Count: 2, Weight: 1}},
		{"token, never dry", Rule{Method: Token, Burst: 2, Count: 1, Weight: 1}, 0.1, Rule{Method: Token, Burst: 1, Count: 1, Weight: 1}},
	} {
		got := c.rule
		if got.shared(c.share); got.Count != c.want.Count || got.Base != c.want.Base || got.Burst != c.want.Burst {
			t.Errorf("%s: %+v; want %+v", c.name, got, c.want)
		}
	}
}

func BenchmarkLearn(b *testing.B) {
	m := NewMemory(MemoryOptions{})
	p, a := one(Take, 0, perMinute("u", 1)), &Answers{Sets: []Answer{{Limit: 1, Reset: 60_000, Retry: 60_000}}}
	b.ReportAllocs()
	for b.Loop() {
		m.learn(p, a)
	}
}
