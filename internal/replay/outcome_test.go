package replay_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/replay"
	"github.com/koalagate/koalagate/internal/trace"
	"github.com/koalagate/koalagate/rules"
)

var (
	rule201 = &rules.Rule{Return: 201}
	allowed = engine.Answer{Verdict: rules.Allow, Result: &rules.Result{Number: 1}, Retry: -1}
	denied  = engine.Answer{Verdict: rules.Deny, Decider: rule201, Result: &rules.Result{Number: 2}, Retry: -1}
	// observed is a refusal that a door in observe mode did not enforce.
	observed = engine.Answer{Verdict: rules.Allow, Observed: rules.Deny, Decider: rule201, Result: &rules.Result{Number: 2}, Retry: -1}
)

// TestOutcomeOfAgreesWithParseOutcome compares OutcomeOf with ParseOutcome
// of what the decision log writes.
func TestOutcomeOfAgreesWithParseOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		op       engine.Op
		decision engine.Decision
		several  bool
		want     replay.Outcome
		ok       bool
	}{
		"allow":       {engine.Take, engine.Decision{Verdict: rules.Allow, Answers: []engine.Answer{allowed}}, false, replay.Outcome{Verdict: "allow"}, true},
		"deny":        {engine.Take, engine.Decision{Verdict: rules.Deny, Answers: []engine.Answer{denied}}, false, replay.Outcome{Verdict: "deny", Rule: 201}, true},
		"observed":    {engine.Take, engine.Decision{Verdict: rules.Allow, Answers: []engine.Answer{observed}}, false, replay.Outcome{Verdict: "deny", Rule: 201}, true},
		"unavailable": {engine.Take, engine.Decision{Verdict: rules.Deny, Unavailable: true}, false, replay.Outcome{}, false},
		"update":      {engine.Update, engine.Decision{Answers: []engine.Answer{allowed}}, true, replay.Outcome{Verdict: "ok"}, true},
		"peek":        {engine.Peek, engine.Decision{Answers: []engine.Answer{allowed}}, false, replay.Outcome{Verdict: "ok"}, true},
		"complete":    {engine.Complete, engine.Decision{Verdict: rules.Deny, Answers: []engine.Answer{{Verdict: rules.Deny, Retry: -1}}}, false, replay.Outcome{Verdict: "deny"}, true},
		"several": {
			engine.Take,
			engine.Decision{Verdict: rules.Deny, Answers: []engine.Answer{allowed, denied}},
			true,
			replay.Outcome{Verdict: "deny", Sets: []replay.Outcome{{Verdict: "allow"}, {Verdict: "deny", Rule: 201}}},
			true,
		},
		"several observed": {
			engine.Take,
			engine.Decision{Verdict: rules.Allow, Answers: []engine.Answer{allowed, observed}},
			true,
			replay.Outcome{Verdict: "deny", Sets: []replay.Outcome{{Verdict: "allow"}, {Verdict: "deny", Rule: 201}}},
			true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := replay.OutcomeOf(c.op, &c.decision, c.several)
			if diff := cmp.Diff(c.want, got); diff != "" || ok != c.ok {
				t.Errorf("OutcomeOf: %v\n%s", ok, diff)
			}
			record := trace.AppendAnswer(nil, c.op, &c.decision, c.several)
			got, ok = replay.ParseOutcome(record)
			if diff := cmp.Diff(c.want, got); diff != "" || ok != c.ok {
				t.Errorf("ParseOutcome(%s): %v\n%s", record, ok, diff)
			}
		})
	}
}

func TestOutcomesDiffer(t *testing.T) {
	base := replay.Outcome{Verdict: "deny", Rule: 1, Sets: []replay.Outcome{{Verdict: "deny", Rule: 1}}}
	for name, c := range map[string]struct {
		other replay.Outcome
		want  bool
	}{
		"same":         {replay.Outcome{Verdict: "deny", Rule: 1, Sets: []replay.Outcome{{Verdict: "deny", Rule: 1}}}, true},
		"verdict":      {replay.Outcome{Verdict: "allow", Rule: 1, Sets: base.Sets}, false},
		"rule":         {replay.Outcome{Verdict: "deny", Rule: 2, Sets: base.Sets}, false},
		"no sets":      {replay.Outcome{Verdict: "deny", Rule: 1}, false},
		"another set":  {replay.Outcome{Verdict: "deny", Rule: 1, Sets: []replay.Outcome{{Verdict: "deny", Rule: 2}}}, false},
		"another type": {replay.Outcome{}, false},
	} {
		if got := base.Equal(c.other); got != c.want {
			t.Errorf("%s: Equal is %v; want %v", name, got, c.want)
		}
	}
	if _, ok := replay.ParseOutcome([]byte("{")); ok {
		t.Error("text that is not JSON has an outcome")
	}
}
