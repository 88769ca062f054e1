package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

const results = `
[result]
0 : {"Err_no":0, "Str_reason":"Allow"}
1 : {"Err_no":0, "Str_reason":"Allow"}
2 : {"Err_no":10, "Str_reason":"Deny"}
3 : {"Err_no":20, "Need_vcode":1, "Vcode_len":4}
`

// noon is 2026-06-01 12:00:00 in Shanghai, in ms since the epoch.
const noon = 1780286400000

// newEngine returns an engine with these rule lines and an empty in-process store.
func newEngine(t testing.TB, lines string, more ...string) *engine.Engine {
	t.Helper()
	m := memory.New(memory.Options{})
	t.Cleanup(func() { m.Close() })
	return engine.New(parse(t, withResults(lines, more...), rules.Options{}), wiring.CountIn(m))
}

// newEngineWith returns an engine that counts in process, with options.
func newEngineWith(t testing.TB, lines string, options ...engine.Option) *engine.Engine {
	t.Helper()
	m := memory.New(memory.Options{})
	t.Cleanup(func() { m.Close() })
	return engine.New(parse(t, withResults(lines), rules.Options{}), append(options, wiring.CountIn(m))...)
}

// withResults returns a rule file with these rule lines, the usual results, and more
// results.
func withResults(lines string, more ...string) string {
	return "[rules]\n" + lines + results + strings.Join(more, "\n")
}

func input(hits uint64, pairs ...string) engine.Input {
	p := new(rules.Params)
	for i := 0; i < len(pairs); i += 2 {
		p.Set(pairs[i], pairs[i+1])
	}
	return engine.Input{Params: p, Hits: hits, NoHits: hits == 0}
}

func decide(t testing.TB, e *engine.Engine, op engine.Op, sets ...engine.Input) *engine.Decision {
	t.Helper()
	d, err := e.Decide(context.Background(), &engine.Call{Op: op, Inputs: sets, Now: noon})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestOverrideHasACounterOfItsOwn(t *testing.T) {
	e := newEngine(t, `rule : [leak] [k=+] [time=60; count=9;] [result=3; return=7]`)
	in := input(1, "k", "a")
	in.Override = &engine.Override{Count: 1, Seconds: 10}

	first := decide(t, e, engine.Take, in).Answers[0]
	if first.Verdict != rules.Allow || first.Quota.Limit != 1 || first.Quota.Window != 10 {
		t.Errorf("the first hit = %+v; want it allowed by a limit of 1 in 10 s", first)
	}
	second := decide(t, e, engine.Take, in).Answers[0]
	if second.Verdict != rules.Challenge || second.Decider.Return != 7 {
		t.Errorf("the second hit = %+v; want rule 7's own result", second)
	}
	plain := decide(t, e, engine.Browse, input(1, "k", "a")).Answers[0]
	if plain.Quota.Remaining != 9 {
		t.Errorf("the rule's own counter holds %d hits; want none", 9-plain.Quota.Remaining)
	}
	in.Override = &engine.Override{Count: 2, Seconds: 10}
	if other := decide(t, e, engine.Take, in).Answers[0]; other.Verdict != rules.Allow || other.Quota.Remaining != 1 {
		t.Errorf("another override = %+v; want a fresh state", other)
	}
}

func TestOverrideWithoutARuleCountsItsEntries(t *testing.T) {
	e := newEngine(t, `rule : [count] [x=+] [time=60; count=9;] [result=2; return=7]`)
	in := input(1, "k", "a")
	in.Override = &engine.Override{Count: 1, Seconds: 10, Entries: []string{"k", "a"}}
	if d := decide(t, e, engine.Take, in); d.Verdict != rules.Allow || d.Answers[0].Quota.Rule != nil {
		t.Fatalf("the first hit = %+v; want it allowed by no rule's limit", d.Answers[0])
	}
	d := decide(t, e, engine.Take, in)
	if d.Verdict != rules.Deny || d.Answers[0].Decider != nil || d.Refusal().Status != 429 {
		t.Errorf("the second hit = %+v, status %d; want 429 by no rule", d.Answers[0], d.Refusal().Status)
	}
	in.Override.Entries = []string{"ka", ""}
	if d := decide(t, e, engine.Take, in); d.Verdict != rules.Allow {
		t.Error("other entries share the counter")
	}
}

func TestOverrideOfZeroRefusesEveryHit(t *testing.T) {
	e := newEngine(t, `rule : [count] [x=+] [time=60; count=9;] [result=2; return=7]`)
	in := input(1, "k", "a")
	in.Override = &engine.Override{Count: 0, Seconds: 10, Entries: []string{"k", "a"}}
	if d := decide(t, e, engine.Take, in); d.Verdict != rules.Deny || d.Answers[0].Retry >= 0 {
		t.Errorf("a hit on a limit of 0 = %+v; want it refused for good", d.Answers[0])
	}
}

func TestWeightsOutOfBoundsAreInvalidAndCountNothing(t *testing.T) {
	e := newEngine(t, `rule : [count] [k=+] [time=60; count=9; cost=c;] [result=2; return=7]`)
	for _, in := range []engine.Input{
		input(engine.MaxHits+1, "k", "a"),
		input(1<<64-1, "k", "a"),
		input(1<<64-1, "none", "a"),
		input(engine.MaxHits, "k", "a", "c", "2"),
		input(engine.MaxHits, "k", "a", "c", "1000000000000000"),
		input(1<<33, "k", "a", "c", "1000000000"),
	} {
		for _, op := range []engine.Op{engine.Take, engine.Browse, engine.Update, engine.Refund} {
			_, err := e.Decide(context.Background(), &engine.Call{Op: op, Now: noon, Inputs: []engine.Input{input(1, "k", "a"), in}})
			if !engine.IsInvalid(err) {
				t.Errorf("op %d of %d hits with %v: error %v; want an invalid call", op, in.Hits, in.Params.List(), err)
			}
		}
	}
	if a := decide(t, e, engine.Browse, input(1, "k", "a")).Answers[0]; a.Quota.Remaining != 9 {
		t.Errorf("%d remain; want 9: an invalid call counts nothing", a.Quota.Remaining)
	}
	if d := decide(t, e, engine.Take, input(engine.MaxHits, "k", "a")); d.Verdict != rules.Deny {
		t.Error("10^15 hits are a valid weight, and refused")
	}
}

func TestRefundInputIsCarriedOutIfNothingIsRefused(t *testing.T) {
	e := newEngine(t, `rule : [count] [k=+] [time=60; count=3;] [result=2; return=7]`)
	decide(t, e, engine.Take, input(3, "k", "a"))
	refund := input(2, "k", "a")
	refund.Refund = true
	if d := decide(t, e, engine.Take, refund, input(9, "k", "b")); d.Verdict != rules.Deny || d.Refuser != 1 || d.Answers[0].Verdict != rules.Allow {
		t.Fatalf("a refund and a refusal = %+v; want the second input refused, the refund OK", d)
	}
	if a := decide(t, e, engine.Browse, input(0, "k", "a")).Answers[0]; a.Quota.Remaining != 0 {
		t.Errorf("%d remain; want 0: a refund with a refusal is not carried out", a.Quota.Remaining)
	}
	decide(t, e, engine.Take, refund, input(1, "k", "b"))
	if a := decide(t, e, engine.Browse, input(0, "k", "a")).Answers[0]; a.Quota.Remaining != 2 {
		t.Errorf("%d remain; want 2 after the refund", a.Quota.Remaining)
	}
}

func TestCompleteListsEveryRuleThatWouldDecide(t *testing.T) {
	e := newEngine(t, `
rule : [count] [k=+] [time=60; count=1;] [result=2; return=1]
rule : [direct] [k=+] [time=1; count=0;] [result=2; return=2]
rule : [count] [k=+] [time=60; count=5;] [result=2; return=3]
rule : [count] [k=+] [time=60; count=1;] [result=2; return=4; shadow=1]
rule : [count] [k=+] [time=70; count=1;] [result=3; return=5]`)
	decide(t, e, engine.Update, input(1, "k", "a"))
	var numbers []int64
	for _, r := range decide(t, e, engine.Complete, input(1, "k", "a")).Answers[0].Refusing {
		numbers = append(numbers, r.Return)
	}
	if len(numbers) != 3 || numbers[0] != 1 || numbers[1] != 2 || numbers[2] != 5 {
		t.Errorf("rules %v would decide; want 1, 2 and 5", numbers)
	}
}

func TestPeekAndReset(t *testing.T) {
	e := newEngine(t, `
rule : [count] [k=+] [time=60; count=9;] [result=2; return=1]
rule : [count] [k=+] [time=60; count=9;] [result=2; return=2]`)
	decide(t, e, engine.Take, input(4, "k", "a"))
	peek := func() int64 {
		d, err := e.Decide(context.Background(), &engine.Call{Op: engine.Peek, Rule: 2, Now: noon, Inputs: []engine.Input{input(0, "k", "a")}})
		if err != nil {
			t.Fatal(err)
		}
		return d.Answers[0].Hits
	}
	if n := peek(); n != 4 {
		t.Errorf("peek = %d; want 4", n)
	}
	if _, err := e.Decide(context.Background(), &engine.Call{Op: engine.Reset, Rule: 2, Now: noon, Inputs: []engine.Input{input(0, "k", "a")}}); err != nil {
		t.Fatal(err)
	}
	if n := peek(); n != 0 {
		t.Errorf("after the reset peek = %d; want 0", n)
	}
	if a := decide(t, e, engine.Browse, input(0, "k", "a")).Answers[0]; a.Quota.Rule.Return != 1 || a.Quota.Remaining != 5 {
		t.Errorf("rule 1 = %+v; want its 4 hits kept", a.Quota)
	}
}

func TestUnavailableStoreIsADecision(t *testing.T) {
	set := parse(t, withResults(`rule : [count] [k=+] [time=60; count=9;] [result=2; return=1]`), rules.Options{})
	e := engine.New(set, wiring.CountIn(storetest.Failing{Err: errors.New("gone")}))
	d := decide(t, e, engine.Take, input(1, "k", "a"))
	if !d.Unavailable || d.Verdict == rules.Allow || d.Refusal().Status != 503 {
		t.Errorf("the decision = %+v; want it unavailable and not allowed", d)
	}
	if d := decide(t, e, engine.Take, input(1, "x", "a")); d.Unavailable || d.Verdict != rules.Allow {
		t.Errorf("a request without a counter = %+v; want it decided without the store", d)
	}
}

func TestCanceledContextIsAnError(t *testing.T) {
	set := parse(t, withResults(`rule : [count] [k=+] [time=60; count=9;] [result=2; return=1]`), rules.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	e := engine.New(set, wiring.CountIn(storetest.Failing{Err: context.Canceled}))
	_, err := e.Decide(ctx, &engine.Call{Op: engine.Take, Inputs: []engine.Input{input(1, "k", "a")}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v; want the cancellation of the caller", err)
	}
}

func TestSwapAppliesToTheNextCallAndKeepsCounters(t *testing.T) {
	e := newEngine(t, `rule : [count] [k=+] [time=60; count=3;] [result=2; return=1]`)
	old := e.Rules()
	decide(t, e, engine.Take, input(2, "k", "a"))
	e.Swap(parse(t, withResults(`rule : [count] [k=+] [time=60; count=2;] [result=2; return=1]`), rules.Options{}))
	if d := decide(t, e, engine.Take, input(1, "k", "a")); d.Verdict != rules.Deny {
		t.Error("a lowered limit must apply at once to hits that are counted")
	}
	d, err := e.Decide(context.Background(), &engine.Call{Rules: old, Op: engine.Take, Now: noon, Inputs: []engine.Input{input(1, "k", "a")}})
	if err != nil || d.Verdict != rules.Allow {
		t.Errorf("a call that began with the old generation = %+v, %v; want the old limit", d, err)
	}
}

func TestObserverReceivesEveryDecision(t *testing.T) {
	m := memory.New(memory.Options{})
	t.Cleanup(func() { m.Close() })
	var seen []rules.Verdict
	e := engine.New(parse(t, withResults(`rule : [count] [k=+] [time=60; count=1;] [result=2; return=1]`), rules.Options{}), wiring.CountIn(m),
		engine.Observe(func(_ *engine.Call, d *engine.Decision, _ error) { seen = append(seen, d.Verdict) }))
	for range 2 {
		decide(t, e, engine.Take, input(1, "k", "a"))
	}
	if len(seen) != 2 || seen[0] != rules.Allow || seen[1] != rules.Deny {
		t.Errorf("observed %v; want allow, then deny", seen)
	}
}

func TestQuotaHasTheWindowOfItsLimit(t *testing.T) {
	for _, c := range []struct {
		line    string
		seconds int64
	}{
		{`rule : [count] [k=+] [time=90; count=4;] [result=2; return=1]`, 90},
		{`rule : [leak] [k=+] [time=90; count=4;] [result=2; return=1]`, 90},
		{`rule : [base] [k=+] [base=4; time=90; count=4;] [result=2; return=1]`, 86400},
		{`rule : [token] [k=+] [time=90; count=4; burst=5] [result=2; return=1]`, 113},
	} {
		a := decide(t, newEngine(t, c.line), engine.Take, input(1, "k", "a")).Answers[0]
		if a.Quota.Window != c.seconds {
			t.Errorf("%s: window %d s; want %d", c.line, a.Quota.Window, c.seconds)
		}
	}
}

// An input without parameters matches the rules that require their absence. A call
// without inputs is an error.
func TestCallsWithoutParameters(t *testing.T) {
	e := newEngine(t, `rule : [count] [uid!=+] [time=60; count=1;] [result=2; return=7]`)
	for i, want := range []rules.Verdict{rules.Allow, rules.Deny} {
		if d := decide(t, e, engine.Take, engine.Input{Hits: 1}); d.Verdict != want {
			t.Errorf("call %d without parameters: %v; want %v", i+1, d.Verdict, want)
		}
	}
	if d, err := e.Decide(context.Background(), &engine.Call{Op: engine.Take}); !engine.IsInvalid(err) {
		t.Errorf("a call without inputs: %+v, %v; want an invalid call", d, err)
	}
}
