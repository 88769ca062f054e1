package replay

import (
	"encoding/json"
	"slices"

	"github.com/koalagate/koalagate/engine"
)

// Outcome is the part of an answer that two rule sets are compared by: the verdict
// and the deciding rule, of each parameter set. It omits the remainder of a limit,
// because a trace may start after its counters did.
type Outcome struct {
	// Verdict is "allow", "deny" or "challenge", or "ok" for operations that
	// decide nothing.
	Verdict string
	// Rule is the number of the deciding rule, 0 without one.
	Rule int64
	// Sets holds the outcomes of the parameter sets of a call that has several.
	Sets []Outcome
}

// Equal reports whether two outcomes have the same verdicts and deciding rules.
func (o Outcome) Equal(other Outcome) bool {
	return o.Verdict == other.Verdict && o.Rule == other.Rule && slices.EqualFunc(o.Sets, other.Sets, Outcome.Equal)
}

// OutcomeOf returns the outcome of a decision. Several reports whether the call
// has a list of parameter sets, as in trace.Line. Ok is false for a decision
// that no store answered, because the rules did not make it. The outcome is the
// decision of the rules even where the mode of the door overruled it.
func OutcomeOf(op engine.Op, d *engine.Decision, several bool) (o Outcome, ok bool) {
	switch {
	case d.Unavailable:
		return Outcome{}, false
	case op == engine.Update, op == engine.Refund, op == engine.Reset:
		return Outcome{Verdict: "ok"}, true
	case !several:
		return outcomeOfSet(op, &d.Answers[0]), true
	}
	o.Verdict = d.Verdict.String()
	for i := range d.Answers {
		o.Sets = append(o.Sets, outcomeOfSet(op, &d.Answers[i]))
	}
	o.applySets()
	return o, true
}

func outcomeOfSet(op engine.Op, a *engine.Answer) Outcome {
	if op == engine.Peek {
		return Outcome{Verdict: "ok"}
	}
	o := Outcome{Verdict: a.Verdict.String()}
	if op == engine.Complete || op == engine.CompleteTake {
		return o
	}
	if a.Overruled() {
		o.Verdict = a.Observed.String()
	}
	if a.Decider != nil {
		o.Rule = a.Decider.Return
	}
	return o
}

// ParseOutcome returns the outcome of an answer as a trace records it. Ok is
// false for text that is not an answer, and for an answer that no store gave.
func ParseOutcome(answer []byte) (o Outcome, ok bool) {
	var r recordedAnswer
	if json.Unmarshal(answer, &r) != nil || r.Unavailable {
		return Outcome{}, false
	}
	return r.outcome(), true
}

// recordedAnswer is an answer in a trace.
type recordedAnswer struct {
	Verdict     string           `json:"verdict"`
	Observed    string           `json:"observed"` // the verdict that a door in observe mode did not enforce
	Return      int64            `json:"return"`
	Sets        []recordedAnswer `json:"sets"`
	Unavailable bool             `json:"unavailable"`
}

func (r *recordedAnswer) outcome() Outcome {
	o := Outcome{Verdict: r.Verdict, Rule: r.Return}
	if r.Observed != "" {
		o.Verdict = r.Observed
	}
	for i := range r.Sets {
		o.Sets = append(o.Sets, r.Sets[i].outcome())
	}
	o.applySets()
	return o
}

// applySets replaces a verdict that a door in observe mode turned into allow by
// the verdict of the first parameter set that is not allowed.
func (o *Outcome) applySets() {
	if o.Verdict != "allow" {
		return
	}
	for _, s := range o.Sets {
		if s.Verdict != "allow" {
			o.Verdict = s.Verdict
			return
		}
	}
}
