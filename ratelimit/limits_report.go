package ratelimit

import (
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/rules"
)

// report reports a call that the limits decided. over is their verdict, and overruled
// the reason for which the call passes nevertheless: a mode, or "" for none.
func (c *limitCall) report(over bool, overruled engine.Mode) {
	s := c.limits
	word := rules.Allow.String()
	switch {
	case overruled == engine.ModeOff:
		word = string(engine.ModeOff)
	case over && overruled == engine.ModeObserve:
		word = "observed-" + rules.Deny.String()
	case over:
		word = rules.Deny.String()
	}
	if s.options.Decided != nil {
		s.options.Decided(word, c.answers.Degraded)
	}
	if s.options.Log == nil || overruled == engine.ModeOff || c.operations == len(c.message.descriptors) {
		return
	}
	call, decision := c.decision(over, overruled)
	s.options.Log(call, decision)
}

// decision returns a call and its answers in the form of decisions by rules.
func (c *limitCall) decision(over bool, overruled engine.Mode) (*engine.Call, *engine.Decision) {
	call := &engine.Call{Op: engine.Take, Door: doorname.RateLimit}
	decision := &engine.Decision{Verdict: rules.Allow, Refuser: -1, At: c.answers.Now, Degraded: c.answers.Degraded}
	if over && overruled == "" {
		decision.Verdict = rules.Deny
	}
	for i := range c.applied {
		a := &c.applied[i]
		if a.operation != decide {
			continue
		}
		call.Inputs = append(call.Inputs, c.input(i))
		answer := c.answer(a)
		switch {
		case answer.Verdict == rules.Allow:
		case overruled == engine.ModeObserve:
			answer.Verdict, answer.Observed, answer.Mode = rules.Allow, rules.Deny, engine.ModeObserve
		case decision.Refuser < 0:
			decision.Refuser = len(decision.Answers)
		}
		decision.Answers = append(decision.Answers, answer)
	}
	return call, decision
}

// input returns a descriptor as the input of a call: its domain and its entries are the
// parameters.
func (c *limitCall) input(i int) engine.Input {
	a, params := &c.applied[i], new(rules.Params)
	params.Set("domain", c.message.domain)
	for _, e := range c.message.entriesOf(i) {
		params.Set(e.Key, e.Value)
	}
	return engine.Input{Params: params, Hits: uint64(a.weight), NoHits: a.weight == 0, Refund: a.negative}
}

// noEntry is the result of an answer to which no entry of a rule file applies.
var noEntry = &rules.Result{Number: -1}

// answer returns the result of a descriptor as an answer of rules.
func (c *limitCall) answer(a *applied) engine.Answer {
	answer := engine.Answer{Verdict: rules.Allow, Result: noEntry, Retry: -1}
	if a.limit == nil {
		return answer
	}
	rule := &rules.Rule{Name: a.limit.Path}
	answer.Matched, answer.Limited = true, true
	answer.Quota = engine.Quota{
		Rule: rule, Limit: int64(a.limit.Requests), Remaining: int64(a.remaining),
		Reset: time.Duration(a.reset) * time.Second, Window: a.limit.Unit.Seconds(),
	}
	switch {
	case c.code(a) == code(rules.Deny):
		answer.Verdict, answer.Decider = rules.Deny, rule
	case a.over: // the limit is in shadow mode
		answer.Shadow = []engine.Shadow{{Rule: rule, Verdict: rules.Deny}}
	}
	return answer
}
