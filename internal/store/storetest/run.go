package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	_ "time/tzdata" // so that the cases do not depend on the zones of the machine

	"github.com/koalagate/koalagate/internal/store"
)

// Run checks every case of the behavior table on a new store.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	for _, table := range [][]behavior{operations, sets, counts, bases, leaks, tokens, clocks, calendars, largeNumbers, overdrafts, bans, waits, marks} {
		for _, b := range table {
			t.Run(b.name, func(t *testing.T) { b.run(t, open(t)) })
		}
	}
	t.Run("400 callers and 10 hits", func(t *testing.T) { checkCrowd(t, open(t)) })
	t.Run("40 callers take turns", func(t *testing.T) { checkTurns(t, open(t)) })
	t.Run("1000 entries of a leak rule with overdraft", func(t *testing.T) { checkEntries(t, open(t)) })
	t.Run("no two subjects share a counter", func(t *testing.T) { checkSubjects(t, open(t)) })
	t.Run("the largest plan", func(t *testing.T) { checkLargestPlan(t, open(t)) })
	t.Run("invalid plans", func(t *testing.T) { checkInvalidPlans(t, open(t)) })
}

// behavior is a sequence of steps on a new store.
type behavior struct {
	name  string
	zone  string // Asia/Shanghai unless stated
	begin int64  // noon of 1 June 2026 in Asia/Shanghai unless stated
	// patience is the longest wait of all callers, in ms; a minute unless stated.
	patience int64
	steps    []step
}

// step is one plan and the expected answers, one line per set; see describe.
type step struct {
	at   int64 // ms after begin
	op   store.Op
	sets []store.Set
	want []string
}

// cancel is a step that cancels the last take that waits.
const cancel store.Op = 100

const noon = 1_780_286_400_000

func (b *behavior) run(t *testing.T, s store.Store) {
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
	var a store.Answers // reused: an answer must not leak into the next step
	var waits waitingTake
	for i, st := range b.steps {
		if st.op == cancel {
			waits.cancel(t, s, begin+st.at)
			continue
		}
		p := &store.Plan{Op: st.op, Now: begin + st.at, Zone: zone, Sets: st.sets, Patience: max(b.patience, 0)}
		if b.patience == 0 {
			p.Patience = 60_000
		}
		if err := s.Evaluate(context.Background(), p, &a); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		if a.Now != p.Now {
			t.Errorf("step %d: answered at %d, want %d", i, a.Now, p.Now)
		}
		got := make([]string, 0, len(a.Sets)+1)
		for j := range a.Sets {
			got = append(got, describe(&a.Sets[j]))
		}
		if a.Wait > 0 {
			got = append(got, fmt.Sprintf("wait %d, set %d rule %d", a.Wait, a.Waiter[0], a.Waiter[1]))
		}
		if (a.Undo != nil) != (a.Wait > 0 && p.Op != store.Browse) {
			t.Errorf("step %d: a wait of %d ms, and Undo is %v", i, a.Wait, a.Undo)
		}
		if a.Undo != nil {
			waits = waitingTake{p, store.Answers{Undo: a.Undo}}
		}
		if !slices.Equal(got, st.want) {
			t.Fatalf("step %d, at %d:\n got %s\nwant %s", i, st.at, strings.Join(got, "\n     "), strings.Join(st.want, "\n     "))
		}
	}
}

// waitingTake is a take that waits for its turn.
type waitingTake struct {
	plan    *store.Plan
	answers store.Answers
}

func (w *waitingTake) cancel(t *testing.T, s store.Store, now int64) {
	t.Helper()
	w.plan.Now = now
	if err := s.Cancel(context.Background(), w.plan, &w.answers); err != nil {
		t.Fatal(err)
	}
}

// Noon returns a zone in which it is about noon when the tests begin, so that plans
// by the machine's clock meet no midnight. It always returns the same zone.
var Noon = sync.OnceValue(func() *time.Location {
	return time.FixedZone("noon", (12-time.Now().UTC().Hour())*3600)
})

// describe returns an answer as text: "ok" or the rule that refused; for the
// reported rule what remains of its limit, and its reset; the retry; the rules that
// refuse; the hits.
func describe(a *store.Answer) string {
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
		if a.Banned {
			b.WriteString(" banned")
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

// one returns the sets of a plan with one set that allows.
func one(rules ...store.Rule) []store.Set { return []store.Set{of(rules...)} }

// of returns a set that allows.
func of(rules ...store.Rule) store.Set { return store.Set{Allows: true, Rules: rules} }

// denying returns a set that denies if no rule decides.
func denying(rules ...store.Rule) store.Set { return store.Set{Rules: rules} }

// refunding returns a set that gives back.
func refunding(rules ...store.Rule) store.Set {
	return store.Set{Allows: true, Refund: true, Rules: rules}
}

// rule returns a rule of weight 1 for the subject u.
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

// weighing returns the rule with another weight.
func weighing(n int64, r store.Rule) store.Rule {
	r.Weight = n
	return r
}

// numbered returns the rule with another return, and so another counter.
func numbered(n int64, r store.Rule) store.Rule {
	r.Return = n
	return r
}

// about returns the rule with another subject, and so another counter.
func about(subject string, r store.Rule) store.Rule {
	r.Subject = []byte(subject)
	return r
}

// shadow returns the rule as a shadow rule.
func shadow(r store.Rule) store.Rule {
	r.Shadow = true
	return r
}

// allowing returns the rule with an answer that allows.
func allowing(r store.Rule) store.Rule {
	r.Allows = true
	return r
}

// every returns a count rule of a calendar unit.
func every(unit store.Unit, from uint8, n int64) store.Rule {
	r := count(0, n)
	r.Unit, r.From = unit, from
	return r
}

// sinceEpoch returns a count rule whose windows begin at multiples of their length.
func sinceEpoch(seconds, n int64) store.Rule {
	r := count(seconds, n)
	r.Unit = store.Epoch
	return r
}

// overdraft returns the rule with an overdraft.
func overdraft(r store.Rule) store.Rule {
	r.Overdraft = true
	return r
}

// banning returns the rule with a ban.
func banning(seconds int64, r store.Rule) store.Rule {
	r.Ban = seconds
	return r
}

// waiting returns the rule with a wait.
func waiting(ms int64, r store.Rule) store.Rule {
	r.Wait = ms
	return r
}
