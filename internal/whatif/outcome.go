// Package whatif counts how the decisions of two rule sets about the same calls differ, by
// rule and identity.
package whatif

import (
	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/rules"
)

// Outcome is the part of a decision by which two rule sets are compared. The zero value
// refuses nothing.
type Outcome struct {
	// Refused is true for a refusal, also where a mode lets the input through.
	Refused bool
	// Rule is the rule that decided or, without one, the first that would; nil for none.
	Rule *rules.Rule
	// Input is the index of the input in its call.
	Input int
}

// Of returns the outcome of the answer about an input. The operation must be one that decides.
func Of(a *engine.Answer, input int) Outcome {
	o := Outcome{Refused: a.Verdict != rules.Allow || a.Overruled(), Rule: a.Decider, Input: input}
	if o.Rule == nil && len(a.Refusing) > 0 {
		o.Rule = a.Refusing[0]
	}
	return o
}

// First returns the first refusal among outcomes, or the zero Outcome.
func First(list []Outcome) Outcome {
	for _, o := range list {
		if o.Refused {
			return o
		}
	}
	return Outcome{}
}

// Call returns the outcome of the first input of a call that is refused, or the zero Outcome.
func Call(d *engine.Decision) Outcome {
	for i := range d.Answers {
		if o := Of(&d.Answers[i], i); o.Refused {
			return o
		}
	}
	return Outcome{}
}
