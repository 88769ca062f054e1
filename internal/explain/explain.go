package explain

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/pace"
	"github.com/koalagate/koalagate/internal/sandbox"
	"github.com/koalagate/koalagate/rules"
)

// Answer explains what set decides about the question, as a first request: no
// counter exists before it or after. The error comes from ctx, or reports hits
// that are out of range.
func (q *Question) Answer(ctx context.Context, set *rules.Set) (*Report, error) {
	counters, err := sandbox.Open(set, sandbox.Options{MaxRules: q.options.MaxRules})
	if err != nil {
		return nil, err
	}
	now := q.options.Now
	if now == 0 {
		now = time.Now().UnixMilli()
	}
	report, _, err := q.Ask(ctx, set, counters, engine.Browse, now)
	if err = errors.Join(err, counters.Close(ctx)); err != nil {
		return nil, err
	}
	return report, nil
}

// Ask carries out an operation of the question with counters, at a time in ms since the
// epoch, and explains its decision. The decision is nil if the request is refused before
// any rule; the report's decision is nil for operations that decide nothing. Counters
// must decide by set. The error comes from ctx or from the counters, or reports hits that
// are out of range.
func (q *Question) Ask(ctx context.Context, set *rules.Set, counters *sandbox.Sandbox, op engine.Op, now int64) (*Report, *engine.Decision, error) {
	traced, err := q.params(ctx, set)
	var refusal *mapping.Refusal
	if errors.As(err, &refusal) {
		return &Report{Request: q.request(set), Params: []Param{}, Rules: []Rule{}, Refused: &Refusal{refusal.Status, refusal.Reason}}, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	params := traced.params
	d, err := counters.Decide(ctx, &engine.Call{
		Rules: set, Door: "explain", Op: op, Now: now, Patience: engine.MaxWait,
		Inputs: []engine.Input{{Params: params, Hits: q.options.Hits, NoHits: q.options.NoHits}},
	})
	if err != nil {
		return nil, nil, err
	}
	e := explainer{set: set, params: params, answer: &d.Answers[0], now: now}
	report := &Report{Request: q.request(set), Params: traced.listParams(), Tokens: traced.listTokens(), Imported: q.explainImported(), Absent: absent(set, params), Counted: op == engine.Take}
	e.refused = report.Imported != nil && report.Imported.Outcome == Decides
	if report.Rules, err = e.rules(ctx); err != nil {
		return nil, nil, err
	}
	switch {
	case e.refused:
		report.Decision = report.Imported.refusal()
	case e.answer.Result != nil: // else the operation decides nothing
		report.Decision = e.decision(d)
		report.Forward = e.forwards(q)
	}
	report.hide(traced.withTokens(set))
	return report, d, nil
}

// request returns the request of the report, nil for rule parameters. Its target has no token.
func (q *Question) request(set *rules.Set) *Request {
	if q.call == nil {
		return nil
	}
	return &Request{Door: q.options.Door, Method: q.options.Method, Target: mapping.WithoutTokens(set, q.options.Target)}
}

// explainer explains one decision.
type explainer struct {
	set    *rules.Set
	params *rules.Params
	answer *engine.Answer
	now    int64 // ms since the epoch
	// refused is true if an imported limit refuses, so that no rule is reached.
	refused bool
}

// Meeting is how a request meets a rule, or why it does not.
type Meeting struct {
	Rule *rules.Rule
	// Match is nil if the request does not meet the rule.
	Match *rules.Match
	// Holding and Failed are the conditions of a rule that is not met, without those on
	// responses. If none fails and the rule is active, it is unlimited for the request.
	Holding, Failed []*rules.Condition
	Active          bool // by its since and until
}

// Meet returns whether the conditions of a rule hold, and the rule is active at now, in ms
// since the epoch. The result has no match.
func Meet(r *rules.Rule, params *rules.Params, now int64) Meeting {
	m := Meeting{Rule: r, Active: r.ActiveAt(now)}
	for _, c := range r.Conditions {
		switch {
		case c.OfResponse(): // known at the settlement
		case c.Holds(params, now):
			m.Holding = append(m.Holding, c)
		default:
			m.Failed = append(m.Failed, c)
		}
	}
	return m
}

// Each calls f for all rules in the order in which they are tried, at now, in ms since the
// epoch. The error comes from ctx.
func Each(ctx context.Context, set *rules.Set, params *rules.Params, now int64, f func(m *Meeting)) error {
	matches := rules.Matches{Now: now}
	set.Match(params, &matches)
	next := 0
	for _, r := range set.Rules {
		if err := pace.Step(ctx); err != nil {
			return err
		}
		if next < len(matches.List) && matches.List[next].Rule == r {
			f(&Meeting{Rule: r, Match: &matches.List[next], Active: true})
			next++
			continue
		}
		m := Meet(r, params, now)
		f(&m)
	}
	return nil
}

// rules explains all rules in the order in which they are tried.
func (e *explainer) rules(ctx context.Context) ([]Rule, error) {
	list := make([]Rule, 0, len(e.set.Rules))
	decided := e.refused
	err := Each(ctx, e.set, e.params, e.now, func(m *Meeting) {
		r := m.Rule
		x := Rule{
			Return: r.Return, Name: r.Name, File: r.Pos.File, Line: r.Pos.Line,
			Method: r.Method.String(), Limit: limitText(r, &r.Limits), Result: r.Result.Number,
		}
		if m.Match != nil {
			x.Limit = limitText(r, &m.Match.Limits)
			e.explainMatch(&x, m.Match, decided)
			if door, _ := e.params.Get("door"); x.Outcome == Passes && doorname.Of(door).Shares {
				x.Unshared = r.Unassignable()
			}
			decided = decided || r == e.answer.Decider
		} else {
			e.explainUnmet(&x, m)
		}
		x.Thresholds = e.thresholds(r)
		list = append(list, x)
	})
	return list, err
}

// forwards returns what the application receives of the request by [forward], if it is
// allowed.
func (e *explainer) forwards(q *Question) (list []Forward) {
	door := doorname.Of(q.options.Door)
	if q.call == nil || !door.Forwards() || e.answer.Verdict != rules.Allow {
		return nil
	}
	for _, f := range e.set.Forwards {
		value, unsent := f.Value(e.params, door.OnlyUTF8)
		list = append(list, Forward{f.Header, value, f.Param, unsent})
	}
	return list
}

// thresholds returns the thresholds of a rule that depend on the request.
func (e *explainer) thresholds(r *rules.Rule) []Threshold {
	var list []Threshold
	for _, t := range r.Resolve(e.params) {
		list = append(list, Threshold{
			Word: t.Threshold.Word, Value: max(t.Value, 0), Unlimited: t.Value == rules.Unlimited, Given: t.Given,
			Param: t.Threshold.Param, Key: t.Key, Table: t.Threshold.Table, Column: t.Threshold.Column, Line: t.Line,
		})
	}
	return list
}

// activity returns when a rule is active that is not active now.
func (e *explainer) activity(r *rules.Rule) string {
	const layout = "2006-01-02 15:04:05 MST"
	if r.Until != 0 && e.now >= r.Until {
		return "active until " + time.UnixMilli(r.Until).In(e.set.Zone).Format(layout)
	}
	return "active from " + time.UnixMilli(r.Since).In(e.set.Zone).Format(layout)
}

// explainUnmet fills in why a rule is not met.
func (e *explainer) explainUnmet(x *Rule, m *Meeting) {
	x.Outcome, x.holding = NotMet, len(m.Holding)
	if !m.Active {
		x.Inactive = e.activity(m.Rule)
	}
	for _, c := range m.Failed {
		value, _ := e.params.Get(c.Name)
		x.Failed = append(x.Failed, Condition{c.String(), c.Name, strings.TrimSpace(value)})
	}
	for _, c := range m.Holding {
		if c.Selects() {
			x.selecting++
		}
	}
}

// explainMatch fills in the effect of a rule that matches. Decided reports whether an
// earlier rule decides.
func (e *explainer) explainMatch(x *Rule, m *rules.Match, decided bool) {
	x.Cost = m.Cost
	for _, p := range m.Values() { // as they are counted, which may differ from the request
		x.CountedFor = append(x.CountedFor, Param{Name: p.Name, Value: p.Value})
	}
	switch {
	case decided:
		x.Outcome = NotReached
	case m.Rule == e.answer.Decider:
		x.Outcome = Decides
	case m.Rule.Shadow:
		x.Outcome = Shadow
		for _, s := range e.answer.Shadow {
			if s.Rule == m.Rule {
				x.Would = s.Verdict.String()
			}
		}
	case slices.Contains(e.answer.Marked, m.Rule):
		x.Outcome, x.Mark = Marks, m.Rule.Mark
	default:
		x.Outcome = Passes
	}
}

// decision explains the outcome of all rules.
func (e *explainer) decision(d *engine.Decision) *Decision {
	a := e.answer
	x := &Decision{Verdict: a.DecisionWord(), Result: a.Result.Number, Reason: a.Result.StrReason, Marks: a.Marks(), Matched: a.Matched}
	if a.Decider != nil {
		x.Decider, x.Name = a.Decider.Return, a.Decider.Name
	}
	switch {
	case d.Verdict != rules.Allow:
		x.Status = d.Refusal().Status
	case a.Limited:
		x.Nearest = &Quota{a.Quota.Rule.Return, a.Quota.Rule.Name, a.Quota.Remaining, a.Quota.Limit}
	}
	return x
}
