package main

import (
	"strings"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/rules"
)

// explanation is what `explain --format json` writes. docs/formats.md
// describes it, and programs rely on it: fields are added, never changed.
type explanation struct {
	Request  *explainedRequest  `json:"request,omitempty"` // with --request or --door
	Params   []explainedParam   `json:"params"`
	Rules    []explainedRule    `json:"rules"`              // all, in the order in which they are tried
	Refused  *explainedRefusal  `json:"refused,omitempty"`  // no rule was asked
	Decision *explainedDecision `json:"decision,omitempty"` // unless refused

	absent []explainedParam // what [params] declares and the request does not bring; for people
}

type explainedRequest struct {
	Door   string `json:"door"`
	Method string `json:"method,omitempty"`
	Target string `json:"target,omitempty"`
}

// explainedParam is a parameter. From says what it was made of, and is empty
// for one that was given.
type explainedParam struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from,omitempty"`
}

type explainedRefusal struct {
	Status int    `json:"status"`
	Reason string `json:"reason"`
}

// The outcomes of a rule.
const (
	outcomeNotMet     = "not met"
	outcomeDecides    = "decides"
	outcomePasses     = "passes"
	outcomeShadow     = "shadow"      // it never decides
	outcomeNotReached = "not reached" // a rule above has decided
)

type explainedRule struct {
	Return     int64            `json:"return"`
	File       string           `json:"file"`
	Line       int              `json:"line"`
	Method     string           `json:"method"`
	Limit      string           `json:"limit"` // in words
	Outcome    string           `json:"outcome"`
	Failed     []explainedFault `json:"failed,omitempty"`      // the conditions that fail
	CountedFor []explainedParam `json:"counted_for,omitempty"` // whose counter it is; none: that of all together
	Cost       int64            `json:"cost"`                  // of a hit; 0 for a rule that is not met
	Result     int              `json:"result"`
	Would      string           `json:"would,omitempty"` // the verdict of a shadow that would have decided

	holding, selecting int // of a rule that is not met, the conditions that hold, and those of them that select
}

type explainedFault struct {
	Condition string `json:"condition"`
	Name      string `json:"name"`
	Value     string `json:"value"` // "" if it is absent
}

type explainedDecision struct {
	Verdict string         `json:"verdict"`
	Result  int            `json:"result"`
	Reason  string         `json:"reason,omitempty"`  // its Str_reason
	Decider int64          `json:"decider,omitempty"` // the return of the rule that decides
	Matched bool           `json:"matched"`           // whether any rule is met
	Status  int            `json:"status,omitempty"`  // of HTTP, for a refusal
	Nearest *explainedLeft `json:"nearest,omitempty"` // of the rules that pass, the one nearest to its limit
}

type explainedLeft struct {
	Return    int64 `json:"return"`
	Remaining int64 `json:"remaining"` // before this request
	Limit     int64 `json:"limit"`
}

// explainer takes one decision apart.
type explainer struct {
	set    *rules.Set
	params *rules.Params
	answer *engine.Answer
}

// rules are all rules in the order in which they are tried.
func (x *explainer) rules() []explainedRule {
	var met rules.Matches
	x.set.Match(x.params, &met)
	list := make([]explainedRule, 0, len(x.set.Rules))
	next, decided := 0, false
	for _, r := range x.set.Rules {
		e := explainedRule{
			Return: r.Return, File: r.Pos.File, Line: r.Pos.Line,
			Method: r.Method.String(), Limit: limit(r), Result: r.Result.Number,
		}
		if next < len(met.List) && met.List[next].Rule == r {
			x.met(&e, &met.List[next], decided)
			decided = decided || r == x.answer.Decider
			next++
		} else {
			e.Outcome = outcomeNotMet
			x.fail(&e, r)
		}
		list = append(list, e)
	}
	return list
}

// fail says which conditions of a rule that is not met do not hold.
func (x *explainer) fail(e *explainedRule, r *rules.Rule) {
	for _, c := range r.Conditions {
		switch {
		case !c.Holds(x.params):
			value, _ := x.params.Get(c.Name)
			e.Failed = append(e.Failed, explainedFault{c.String(), c.Name, strings.TrimSpace(value)})
		case c.Selects():
			e.selecting++
			fallthrough
		default:
			e.holding++
		}
	}
}

// met says what a rule that is met does.
func (x *explainer) met(e *explainedRule, m *rules.Match, decided bool) {
	e.Cost, e.CountedFor = m.Cost, identity(m)
	switch {
	case decided:
		e.Outcome = outcomeNotReached
	case m.Rule == x.answer.Decider:
		e.Outcome = outcomeDecides
	case m.Rule.Shadow:
		e.Outcome = outcomeShadow
		for _, s := range x.answer.Shadow {
			if s.Rule == m.Rule {
				e.Would = s.Verdict.String()
			}
		}
	default:
		e.Outcome = outcomePasses
	}
}

// identity is what the counter of a rule belongs to, nil for a rule that counts
// nothing. Its values are those that the rule counts by, which may be spelt
// otherwise than the request's.
func identity(m *rules.Match) []explainedParam {
	var parts []explainedParam
	for _, p := range m.Values() {
		parts = append(parts, explainedParam{Name: p.Name, Value: p.Value})
	}
	return parts
}

// decision is the outcome of all rules.
func (x *explainer) decision(d *engine.Decision) *explainedDecision {
	a := x.answer
	e := &explainedDecision{Verdict: a.DecisionWord(), Result: a.Result.Number, Reason: a.Result.StrReason, Matched: a.Matched}
	if a.Decider != nil {
		e.Decider = a.Decider.Return
	}
	switch {
	case d.Verdict != rules.Allow:
		e.Status = d.Refusal().Status
	case a.Limited:
		e.Nearest = &explainedLeft{a.Quota.Rule.Return, a.Quota.Remaining, a.Quota.Limit}
	}
	return e
}
