package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	_ "time/tzdata" // the cases do not depend on the machine's zones

	"github.com/koalagate/koalagate/internal/store"
)

// Run puts every case of the behaviour table to a store of its own.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	for _, table := range [][]behaviour{operations, sets, counts, bases, leaks, tokens, clocks} {
		for _, b := range table {
			t.Run(b.name, func(t *testing.T) { b.run(t, open(t)) })
		}
	}
	t.Run("400 callers and 10 hits", func(t *testing.T) { crowd(t, open(t)) })
	t.Run("no two subjects share a counter", func(t *testing.T) { strangers(t, open(t)) })
	t.Run("the largest plan", func(t *testing.T) { giants(t, open(t)) })
	t.Run("plans that no caller may make", func(t *testing.T) { faulty(t, open(t)) })
}

// behaviour is a dialogue with a store that has counted nothing yet.
type behaviour struct {
	name  string
	zone  string // Asia/Shanghai unless stated
	begin int64  // noon of 1 June 2026 in Asia/Shanghai unless stated
	steps []step
}

// step is one plan and what is to be answered, a line a set (see say).
type step struct {
	at   int64 // ms after the begin
	op   store.Op
	sets []store.Set
	want []string
}

const noon = 1_780_286_400_000

func (b *behaviour) run(t *testing.T, s store.Store) {
	name, begin := b.zone, b.begin
	if name == "" {
		name = "Asia/Shanghai"
	}
	if begin == 0 {
		begin = noon
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	var a store.Answers // used again: what a step leaves must not reach the next
	for i, st := range b.steps {
		p := &store.Plan{Op: st.op, Now: begin + st.at, Zone: zone, Sets: st.sets}
		if err := s.Evaluate(context.Background(), p, &a); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		if a.Now != p.Now {
			t.Errorf("step %d: it was answered at %d, want %d", i, a.Now, p.Now)
		}
		got := make([]string, len(a.Sets))
		for j := range a.Sets {
			got[j] = say(&a.Sets[j])
		}
		if !slices.Equal(got, st.want) {
			t.Fatalf("step %d, at %d:\n got %s\nwant %s", i, st.at, strings.Join(got, "\n     "), strings.Join(st.want, "\n     "))
		}
	}
}

// Noon is a zone in which it is about noon as the tests begin: plans by the
// machine's clock meet no midnight in it. It is the same one each time.
var Noon = sync.OnceValue(func() *time.Location {
	return time.FixedZone("noon", (12-time.Now().UTC().Hour())*3600)
})

// say words an answer: "ok" or the rule that refused; then, of the rule that
// is reported, what remains of the limit and when it is as new; when the
// weight would fit; the rules that refuse; the hits.
func say(a *store.Answer) string {
	b := new(strings.Builder)
	b.WriteString("ok")
	if a.Decider >= 0 {
		b.Reset()
		fmt.Fprintf(b, "rule %d refuses", a.Decider)
	}
	if a.Reporter >= 0 {
		fmt.Fprintf(b, "; rule %d: %d of %d", a.Reporter, a.Remaining, a.Limit)
		if a.Daily {
			b.WriteString(" today")
		}
		fmt.Fprintf(b, ", reset %d", a.Reset)
	}
	if a.Retry >= 0 {
		fmt.Fprintf(b, ", retry %d", a.Retry)
	}
	if len(a.Refusals) > 0 {
		fmt.Fprintf(b, "; refusing %v", a.Refusals)
	}
	if a.Hits > 0 {
		fmt.Fprintf(b, "; %d hits", a.Hits)
	}
	return b.String()
}

// one is the sets of a plan with one set, which allows.
func one(rules ...store.Rule) []store.Set { return []store.Set{of(rules...)} }

// of is a set that allows.
func of(rules ...store.Rule) store.Set { return store.Set{Allows: true, Rules: rules} }

// refused is a set whose answer denies where no rule decides.
func refused(rules ...store.Rule) store.Set { return store.Set{Rules: rules} }

// back is a set that gives back.
func back(rules ...store.Rule) store.Set {
	return store.Set{Allows: true, Refund: true, Rules: rules}
}

// rule is a rule of weight 1 that counts the subject u.
func rule(m store.Method, number, seconds, count int64) store.Rule {
	return store.Rule{Subject: []byte("u"), Return: number, Method: m, Time: seconds, Count: count, Weight: 1}
}

func count(seconds, count int64) store.Rule { return rule(store.Count, 1, seconds, count) }

func base(base, seconds, count int64) store.Rule {
	r := rule(store.Base, 1, seconds, count)
	r.Base = base
	return r
}

func leak(seconds, count int64) store.Rule { return rule(store.Leak, 1, seconds, count) }

func token(seconds, count, burst int64) store.Rule {
	r := rule(store.Token, 1, seconds, count)
	r.Burst = burst
	return r
}

// weighing is the rule with another weight.
func weighing(n int64, r store.Rule) store.Rule {
	r.Weight = n
	return r
}

// numbered is the rule with another return, and so another counter.
func numbered(n int64, r store.Rule) store.Rule {
	r.Return = n
	return r
}

// about is the rule with another subject, and so another counter.
func about(subject string, r store.Rule) store.Rule {
	r.Subject = []byte(subject)
	return r
}

// shadow is the rule out of force.
func shadow(r store.Rule) store.Rule {
	r.Shadow = true
	return r
}

// allowing is the rule with an answer that allows.
func allowing(r store.Rule) store.Rule {
	r.Allows = true
	return r
}
