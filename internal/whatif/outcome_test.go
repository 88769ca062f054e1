package whatif

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/rules"
)

// A mode that lets a refused input through and an operation that asks all rules hide neither
// the refusal nor its rule.
func TestOutcomes(t *testing.T) {
	first, second := &rules.Rule{Return: 201}, &rules.Rule{Return: 202}
	for name, test := range map[string]struct {
		answer engine.Answer
		want   Outcome
	}{
		"allowed":   {engine.Answer{Verdict: rules.Allow}, Outcome{}},
		"refused":   {engine.Answer{Verdict: rules.Deny, Decider: first}, Outcome{Refused: true, Rule: first}},
		"let in":    {engine.Answer{Verdict: rules.Allow, Decider: first}, Outcome{Rule: first}},
		"observed":  {engine.Answer{Verdict: rules.Allow, Observed: rules.Challenge, Decider: first}, Outcome{Refused: true, Rule: first}},
		"by all":    {engine.Answer{Verdict: rules.Deny, Refusing: []*rules.Rule{second, first}}, Outcome{Refused: true, Rule: second}},
		"zero":      {engine.Answer{}, Outcome{Refused: true}},
		"by nobody": {engine.Answer{Verdict: rules.Deny}, Outcome{Refused: true}},
	} {
		if got := Of(&test.answer, 0); got != test.want {
			t.Errorf("%s: %+v; want %+v", name, got, test.want)
		}
		test.want.Input = 1
		if !test.want.Refused {
			test.want = Outcome{}
		}
		d := &engine.Decision{Answers: []engine.Answer{{Verdict: rules.Allow}, test.answer}}
		if got := Call(d); got != test.want {
			t.Errorf("a call of two, %s: %+v; want %+v", name, got, test.want)
		}
		if got := First([]Outcome{{}, Of(&test.answer, 1)}); got != test.want {
			t.Errorf("of two, %s: %+v; want %+v", name, got, test.want)
		}
	}
}

// Rules beyond the bound are counted without identities, and identities beyond it take the
// counter of the least frequent one, so that no count is too low.
func TestBoundsOfATally(t *testing.T) {
	tally := Tally{Rules: 1, Identities: 2}
	for _, refused := range []struct {
		number int64
		name   string
	}{{201, "a"}, {201, "a"}, {201, "b"}, {201, "c"}, {202, "a"}, {201, ""}} {
		tally.Add(Outcome{}, Outcome{Refused: true, Rule: &rules.Rule{Return: refused.number}}, func(Outcome) string { return refused.name })
	}
	want := []Rule{
		{Rule: 201, Differences: Differences{NewlyRefused: 5}, Identities: []Identity{
			{"a", Differences{NewlyRefused: 2}}, {"c", Differences{NewlyRefused: 2}},
		}},
		{Rule: 202, Differences: Differences{NewlyRefused: 1}, Identities: []Identity{}},
	}
	if diff := cmp.Diff(want, tally.Found(10).Rules); diff != "" {
		t.Error(diff)
	}
	if got := len(tally.Found(1).Rules[0].Identities); got != 1 {
		t.Errorf("%d identities; want 1", got)
	}
}
