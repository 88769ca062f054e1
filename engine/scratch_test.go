package engine_test

import (
	"context"
	"reflect"
	"slices"
	"testing"

	"github.com/koalagate/koalagate/engine"
)

// Decisions in scratch memory are those without it, whatever was built in it
// before.
func TestScratchHoldsNothingOfFormerDecisions(t *testing.T) {
	rules := `rule : [direct] [k=black] [time=1; count=0;] [result=2; return=5]
rule : [count] [k=+; shadow=+] [time=60; count=1;] [result=2; return=6; shadow=1]
rule : [count] [k=+] [time=60; count=2;] [result=2; return=7]`
	with, without := newEngine(t, rules), newEngine(t, rules)
	black, some := input(1, "k", "black"), input(1, "k", "a", "shadow", "1")
	back := some
	back.Refund = true
	limited := input(1, "none", "a")
	limited.Override = &engine.Override{Count: 1, Seconds: 10, Entries: []string{"none", "a"}}
	var scratch engine.Scratch
	for i, inputs := range [][]engine.Input{
		{some},
		{some},
		{some},
		{black},
		{input(1, "none", "a")},
		{limited},
		{limited},
		{some, black, back},
		{black, some},
		{some},
		{back},
		{limited, some},
		{input(0, "k", "b")},
	} {
		for _, op := range []engine.Op{engine.Take, engine.Complete, engine.Peek, engine.Browse} {
			inputs := slices.Clone(inputs)
			for j := range inputs {
				inputs[j].Refund = inputs[j].Refund && op == engine.Take // refunds are inputs of takes only
			}
			got, err := with.Decide(context.Background(), &engine.Call{Op: op, Now: noon, Inputs: inputs, Rule: 7, Scratch: &scratch})
			if err != nil {
				t.Fatal(err)
			}
			want, err := without.Decide(context.Background(), &engine.Call{Op: op, Now: noon, Inputs: inputs, Rule: 7})
			if err != nil {
				t.Fatal(err)
			}
			if op == engine.Take && want.Refuser >= 0 {
				if a, b := got.Refusal(), want.Refusal(); string(a.Body) != string(b.Body) || a.Status != b.Status {
					t.Errorf("call %d is refused with %d %s in scratch memory; want %d %s", i, a.Status, a.Body, b.Status, b.Body)
				}
			}
			if a, b := contents(got), contents(want); !reflect.DeepEqual(a, b) {
				t.Errorf("call %d, op %d in scratch memory:\n%+v\nwant\n%+v", i, op, a, b)
			}
		}
	}
}

// contents returns the contents of a decision, with the numbers of rules in place
// of the rules, which are not the same for two engines.
func contents(d *engine.Decision) any {
	type answer struct {
		a                     engine.Answer
		rule, quota, refusing int64
	}
	list := make([]answer, len(d.Answers))
	for i, a := range d.Answers {
		one := answer{a: a}
		if a.Decider != nil {
			one.rule = a.Decider.Return
		}
		if a.Quota.Rule != nil {
			one.quota = a.Quota.Rule.Return
		}
		for _, r := range a.Refusing {
			one.refusing = one.refusing*10 + r.Return
		}
		for j := range a.Shadow {
			one.refusing = one.refusing*10 + a.Shadow[j].Rule.Return
		}
		one.a.Decider, one.a.Quota.Rule, one.a.Refusing, one.a.Shadow = nil, nil, nil, nil
		if a.Result != nil {
			one.rule = one.rule*10 + int64(a.Result.Number)
			one.a.Result = nil
		}
		list[i] = one
	}
	return []any{d.Verdict, d.Refuser, d.Degraded, d.Unavailable, d.At, list}
}
