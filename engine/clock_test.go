package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

// toldStore admits everything at a time of its own.
type toldStore struct {
	storetest.Receiptless
	now      int64
	degraded bool
	calls    int
}

func (s *toldStore) Evaluate(_ context.Context, p *store.Plan, a *store.Answers) error {
	s.calls++
	a.Sets = a.Sets[:0]
	for range p.Sets {
		a.Sets = append(a.Sets, store.Answer{Decider: -1, Reporter: -1, Retry: -1})
	}
	a.Now, a.Degraded = s.now, s.degraded
	return nil
}

// fakeClock counts how often it is read.
type fakeClock struct {
	now   time.Time
	reads int
}

func (c *fakeClock) read() time.Time { c.reads++; return c.now }

func timedRules(t testing.TB, words string) *rules.Set {
	t.Helper()
	text := "[settings]\ntimezone : UTC\n[rules]\nrule : [direct] [a=1] [] [result=2; return=1" + words + "]\nrule : [count] [a=+] [time=60; count=9] [result=2; return=2]\n" +
		"[result]\n0 : {\"Err_no\":0}\n1 : {\"Err_no\":0}\n2 : {\"Err_no\":10}\n"
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text)}}, rules.Options{})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	return set
}

// TestRulesBeginByTheClockOfTheCounters checks which clock since and until go by.
func TestRulesBeginByTheClockOfTheCounters(t *testing.T) {
	june := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	own := &fakeClock{now: june.Add(-time.Hour)}
	counters := &toldStore{now: june.Add(-time.Second).UnixMilli()}
	e := engine.New(timedRules(t, "; since=2026-06-01"), wiring.CountIn(counters), engine.WithClock(own.read))
	check := func(what, value string, now int64, denied bool) {
		t.Helper()
		d, err := e.Decide(t.Context(), &engine.Call{Op: engine.Take, Now: now, Inputs: []engine.Input{input(1, "a", value), input(1, "a", value)}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range d.Answers {
			if got := d.Answers[i].Verdict == rules.Deny; got != denied {
				t.Errorf("%s: input %d is denied: %v, want %v", what, i, got, denied)
			}
		}
	}
	check("its own clock until the counters tell theirs", "1", 0, false)
	check("the counters' clock, a second early", "1", 0, false)
	own.now = own.now.Add(1001 * time.Millisecond)
	check("carried on", "1", 0, true)
	check("the time of the call", "1", june.Add(-time.Minute).UnixMilli(), false)
	counters.now, counters.degraded = june.Add(-time.Hour).UnixMilli(), true
	check("the in-process store tells nothing", "2", 0, false)
	check("the in-process store has told nothing", "1", 0, true)
	counters.degraded = false
	check("a clock that is set back", "2", 0, false)
	check("a clock that was set back", "1", 0, false)
}

// TestClockIsReadForTimedRulesOnly checks that a rule set without since and until costs
// no reading of the clock, and one with them one per call and one per answer.
func TestClockIsReadForTimedRulesOnly(t *testing.T) {
	for words, want := range map[string]int{"": 0, "; until=2026-06-01": 2} {
		own := &fakeClock{now: time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)}
		e := engine.New(timedRules(t, words), wiring.CountIn(&toldStore{now: own.now.UnixMilli()}), engine.WithClock(own.read))
		own.reads = 0
		if _, err := e.Decide(t.Context(), &engine.Call{Op: engine.Take, Inputs: []engine.Input{input(1, "a", "2"), input(1, "a", "3")}}); err != nil {
			t.Fatal(err)
		}
		if own.reads != want {
			t.Errorf("%q: the clock is read %d times, want %d", words, own.reads, want)
		}
	}
}

func BenchmarkTimedRules(b *testing.B) {
	for name, words := range map[string]string{"without since": "", "with since": "; since=2026-06-01"} {
		b.Run(name, func(b *testing.B) {
			e := engine.New(timedRules(b, words), wiring.CountIn(&toldStore{now: time.Now().UnixMilli()}))
			call := &engine.Call{Op: engine.Take, Scratch: new(engine.Scratch), Inputs: []engine.Input{input(1, "a", "2")}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Decide(context.Background(), call); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
