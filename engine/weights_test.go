package engine_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

// everyMethod has a rule of each counting method, selected by the parameter m.
const everyMethod = `
rule : [count] [m=count; k=+] [time=60; count=10; cost=c;] [result=2; return=1]
rule : [base] [m=base; k=+] [base=5; time=60; count=10; cost=c;] [result=2; return=2]
rule : [leak] [m=leak; k=+] [time=60; count=10; cost=c;] [result=2; return=3]
rule : [token] [m=token; k=+] [time=60; count=10; cost=c;] [result=2; return=4]`

// onBothStores runs a test with an engine on each store.
func onBothStores(t *testing.T, test func(t *testing.T, e *engine.Engine)) {
	t.Helper()
	redis := storetest.Redis(t)
	set := parse(t, withResults(everyMethod), rules.Options{})
	t.Run("redis", func(t *testing.T) { test(t, engine.New(set, wiring.CountIn(redis(t)))) })
	t.Run("memory", func(t *testing.T) {
		m := memory.New(memory.Options{})
		t.Cleanup(m.Close)
		test(t, engine.New(set, wiring.CountIn(m)))
	})
}

// Hits are multiplied by the cost that callers send. A value that is no integer from 0
// to 10^15 costs 1.
func TestInvalidCostsAreOne(t *testing.T) {
	onBothStores(t, func(t *testing.T, e *engine.Engine) {
		for cost, weight := range map[string]int64{
			"3": 3, " 3 ": 3, "003": 3, "0": 0, "-0": 0, "1000000000000000": 1_000_000_000_000_000,
			"": 1, "-1": 1, "1000000000000001": 1, "9223372036854775807": 1, "9223372036854775808": 1, "18446744073709551616": 1,
			"1e3": 1, "3.0": 1, "+3": 1, "0x10": 1, "1_000": 1, "٣": 1, "3\x00": 1, "NaN": 1, "--3": 1, "-": 1,
		} {
			for _, method := range []string{"count", "leak"} {
				in := input(1, "m", method, "k", fmt.Sprintf("%q", cost), "c", cost) // a counter each
				decide(t, e, engine.Update, in)
				in.Hits, in.NoHits = 0, true
				if got := 10 - decide(t, e, engine.Browse, in).Answers[0].Quota.Remaining; got != min(weight, 10) {
					t.Errorf("%s: a cost of %q weighs %d, want %d", method, cost, got, min(weight, 10))
				}
			}
		}
	})
}

// After several calls with the largest weight, further hits are refused until the weight
// is given back or the window ends.
func TestLargestWeightsEnd(t *testing.T) {
	onBothStores(t, func(t *testing.T, e *engine.Engine) {
		ask := func(op engine.Op, after int64, hits uint64, method, key string) rules.Verdict {
			d, err := e.Decide(context.Background(), &engine.Call{Op: op, Now: noon + after, Inputs: []engine.Input{input(hits, "m", method, "k", key)}})
			if err != nil {
				t.Fatal(err)
			}
			return d.Verdict
		}
		for _, method := range []string{"count", "base", "leak", "token"} {
			for _, key := range []string{"refunded", "waited for"} {
				for i := range int64(5) {
					ask(engine.Update, i, engine.MaxHits, method, key)
				}
				if ask(engine.Take, 5, 1, method, key) != rules.Deny {
					t.Errorf("%s, %s: a hit is admitted beyond 5 × 10^15", method, key)
				}
			}
			for range 5 {
				ask(engine.Refund, 6, engine.MaxHits, method, "refunded")
			}
			if ask(engine.Take, 7, 10, method, "refunded") != rules.Allow {
				t.Errorf("%s: ten hits are refused after a refund of all", method)
			}
			if ask(engine.Take, 70_000, 10, method, "waited for") != rules.Allow {
				t.Errorf("%s: ten hits are refused after the window", method)
			}
		}
	})
}

func TestTooManyRulesAreRefusedIfTheCallSaysSo(t *testing.T) {
	set := parse(t, withResults(`
rule : [count] [k=+] [time=60; count=9;] [result=2; return=1]
rule : [count] [k=+] [time=60; count=9;] [result=2; return=2]`), rules.Options{})
	exceeded := 0
	e := engine.New(set, engine.WithMaxRules(3, func() { exceeded++ }))
	call := &engine.Call{Op: engine.Take, Now: noon, Inputs: []engine.Input{input(1, "k", "a"), input(1, "k", "b")}}
	if _, err := e.Decide(context.Background(), call); !engine.IsInvalid(err) || exceeded != 1 {
		t.Errorf("four counters of three: %v, reported %d times; want an InvalidError, reported once", err, exceeded)
	}
	call.RefuseExcess = true
	d, err := e.Decide(context.Background(), call)
	if err != nil || d.Refuser != 1 || d.Refusal().Status != 429 || exceeded != 2 {
		t.Errorf("%+v, %v, reported %d times; want input 1 refused with 429, reported once more", d, err, exceeded)
	}
	if d := decide(t, e, engine.Take, input(1, "k", "a")); !d.Allowed() || d.Answers[0].Quota.Remaining != 8 || exceeded != 2 {
		t.Errorf("two counters: %+v, reported %d times; want them counted for the first time", d, exceeded)
	}
	for _, n := range []int{-1, 0, store.MaxRules + 1} {
		if d := decide(t, engine.New(set, engine.WithMaxRules(n, nil)), engine.Take, call.Inputs...); !d.Allowed() {
			t.Errorf("a maximum of %d: %+v; want the store's", n, d)
		}
	}
}

func TestTooLargeWeightsAreRefusedIfTheCallSaysSo(t *testing.T) {
	e := newEngine(t, `
rule : [direct] [k=free] [] [result=1; return=5]
rule : [count] [k=a,b,free] [time=60; count=9; cost=c;] [result=2; return=7]`)
	for name, c := range map[string]struct {
		in   engine.Input
		want rules.Verdict
	}{
		"hits":                {input(engine.MaxHits+1, "k", "a"), rules.Deny},
		"all hits":            {input(math.MaxUint64, "k", "a"), rules.Deny},
		"hits without a rule": {input(math.MaxUint64, "k", "z"), rules.Deny},
		"hits times cost":     {input(engine.MaxHits, "k", "a", "c", "999999999"), rules.Deny},
		"a product near 2^64": {input(1<<62, "k", "a", "c", "5"), rules.Deny},
		"a direct rule above": {input(engine.MaxHits, "k", "free", "c", "999999999"), rules.Allow},
	} {
		call := &engine.Call{Op: engine.Take, RefuseExcess: true, Now: noon, Inputs: []engine.Input{input(1, "k", "b"), c.in}}
		d, err := e.Decide(context.Background(), call)
		if err != nil || d.Verdict != c.want || d.Answers[0].Verdict != rules.Allow {
			t.Errorf("%s: %+v, %v; want %v, and the other input allowed", name, d, err, c.want)
			continue
		}
		if c.want == rules.Deny && (d.Refuser != 1 || d.Refusal().Status != 429 || d.Answers[1].Limited) {
			t.Errorf("%s: %+v; want input 1 refused with 429 and no quota", name, d)
		}
		call.Op = engine.Browse
		if _, err := e.Decide(context.Background(), call); c.want == rules.Deny && !engine.IsInvalid(err) {
			t.Errorf("%s in a browse: %v; want an InvalidError", name, err)
		}
	}
	// One call was carried out: the direct rule's.
	if a := decide(t, e, engine.Browse, input(1, "k", "b")).Answers[0]; a.Quota.Remaining != 8 {
		t.Errorf("%d remain; want 8: refused calls count nothing", a.Quota.Remaining)
	}
}
