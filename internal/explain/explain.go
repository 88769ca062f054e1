package explain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/method"
	"github.com/koalagate/koalagate/internal/pace"
	"github.com/koalagate/koalagate/internal/sandbox"
	"github.com/koalagate/koalagate/rules"
)

// Answer explains what set decides about the question, as a first request: no
// counter exists before it or after. The error comes from ctx, or reports hits
// that are out of range.
func (q *Question) Answer(ctx context.Context, set *rules.Set) (*Report, error) {
	counters, err := sandbox.Open(set, sandbox.Options{})
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
	params, origins, err := q.params(ctx, set)
	var refusal *mapping.Refusal
	if errors.As(err, &refusal) {
		return &Report{Request: q.request(), Params: []Param{}, Rules: []Rule{}, Refused: &Refusal{refusal.Status, refusal.Reason}}, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	d, err := counters.Decide(ctx, &engine.Call{
		Rules: set, Door: "explain", Op: op, Now: now, Patience: engine.MaxWait,
		Inputs: []engine.Input{{Params: params, Hits: q.options.Hits, NoHits: q.options.NoHits}},
	})
	if err != nil {
		return nil, nil, err
	}
	e := explainer{set: set, params: params, answer: &d.Answers[0], now: now}
	report := &Report{Request: q.request(), Params: listParams(params, origins), Imported: q.explainImported(), Absent: absent(set, params), Counted: op == engine.Take}
	e.refused = report.Imported != nil && report.Imported.Outcome == Decides
	if report.Rules, err = e.rules(ctx); err != nil {
		return nil, nil, err
	}
	switch {
	case e.refused:
		report.Decision = report.Imported.refusal()
	case e.answer.Result != nil: // else the operation decides nothing
		report.Decision = e.decision(d)
	}
	return report, d, nil
}

// request returns the request of the report, nil for rule parameters.
func (q *Question) request() *Request {
	if q.call == nil {
		return nil
	}
	return &Request{Door: q.options.Door, Method: q.options.Method, Target: q.options.Target}
}

func listParams(params *rules.Params, origins map[string]string) []Param {
	list := make([]Param, 0, params.Len())
	for _, p := range params.List() {
		list = append(list, Param{p.Name, p.Value, origins[p.Name]})
	}
	return list
}

// absent returns the declared parameters that a request lacks. Most rules that
// are not met depend on a header that the gateway does not send.
func absent(set *rules.Set, params *rules.Params) []Param {
	var list []Param
	for _, d := range set.Params {
		if _, ok := params.Get(d.Name); ok {
			continue
		}
		sources := make([]string, len(d.Sources))
		for i := range d.Sources {
			sources[i] = d.Sources[i].String()
		}
		list = append(list, Param{d.Name, "", strings.Join(sources, " else ")})
	}
	return list
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

// rules explains all rules in the order in which they are tried.
func (e *explainer) rules(ctx context.Context) ([]Rule, error) {
	matches := rules.Matches{Now: e.now}
	e.set.Match(e.params, &matches)
	list := make([]Rule, 0, len(e.set.Rules))
	next, decided := 0, e.refused
	for _, r := range e.set.Rules {
		if err := pace.Step(ctx); err != nil {
			return nil, err
		}
		x := Rule{
			Return: r.Return, Name: r.Name, File: r.Pos.File, Line: r.Pos.Line,
			Method: r.Method.String(), Limit: limitText(r, &r.Limits), Result: r.Result.Number,
		}
		if next < len(matches.List) && matches.List[next].Rule == r {
			x.Limit = limitText(r, &matches.List[next].Limits)
			e.explainMatch(&x, &matches.List[next], decided)
			decided = decided || r == e.answer.Decider
			next++
		} else {
			x.Outcome, x.Inactive = NotMet, e.inactive(r)
			e.explainConditions(&x, r)
		}
		x.Thresholds = e.thresholds(r)
		list = append(list, x)
	}
	return list, nil
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

// inactive returns when a rule is active, "" if it is now.
func (e *explainer) inactive(r *rules.Rule) string {
	const layout = "2006-01-02 15:04:05 MST"
	switch {
	case r.ActiveAt(e.now):
		return ""
	case r.Until != 0 && e.now >= r.Until:
		return "active until " + time.UnixMilli(r.Until).In(e.set.Zone).Format(layout)
	}
	return "active from " + time.UnixMilli(r.Since).In(e.set.Zone).Format(layout)
}

// explainConditions lists the conditions of r that fail, and counts the others.
func (e *explainer) explainConditions(x *Rule, r *rules.Rule) {
	for _, c := range r.Conditions {
		switch {
		case c.OfResponse(): // known at the settlement
		case !c.Holds(e.params):
			value, _ := e.params.Get(c.Name)
			x.Failed = append(x.Failed, Condition{c.String(), c.Name, strings.TrimSpace(value)})
		case c.Selects():
			x.selecting++
			fallthrough
		default:
			x.holding++
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
	default:
		x.Outcome = Passes
	}
}

// decision explains the outcome of all rules.
func (e *explainer) decision(d *engine.Decision) *Decision {
	a := e.answer
	x := &Decision{Verdict: a.DecisionWord(), Result: a.Result.Number, Reason: a.Result.StrReason, Matched: a.Matched}
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

// windowText returns the window of a count rule in words.
func windowText(r *rules.Rule, l *rules.Limits) string {
	var unit string
	switch r.Unit {
	case rules.Epoch:
		return fmt.Sprintf("%d s since the epoch", l.Time)
	case rules.Minute:
		unit = "minute"
	case rules.Hour:
		unit = "hour"
	case rules.Week:
		unit = "week"
	case rules.Month:
		unit = "month"
	case rules.Year:
		unit = "year"
	default:
		if l.Time != rules.Day {
			return fmt.Sprintf("%d s", l.Time)
		}
		unit = "day"
	}
	if r.From > 1 {
		return fmt.Sprintf("a calendar %s from day %d", unit, r.From)
	}
	return "a calendar " + unit
}

// Limit returns the limit of a rule in words, for requests to which no threshold gives
// another value.
func Limit(r *rules.Rule) string { return limitText(r, &r.Limits) }

// limitText returns the limit of a rule in words.
func limitText(r *rules.Rule, l *rules.Limits) string {
	window, is := fmt.Sprintf("%d s", l.Time), method.Of(r.Method)
	if is.Windows {
		window = windowText(r, l)
	}
	text := is.Limit(l.Count, l.Base, l.Burst, window)
	switch {
	case r.Ban > 0:
		text += fmt.Sprintf(", a refusal bans for %d s", r.Ban)
	case r.Wait > 0:
		text += fmt.Sprintf(", waiting up to %g s", float64(r.Wait)/1000)
	}
	if r.Overdraft {
		text += ", counting what it refuses"
	}
	switch {
	case r.IsOutcome():
		text += fmt.Sprintf(", counted by the response within %d s", r.Settle)
	case r.Settle > 0:
		text += fmt.Sprintf(", settled within %d s", r.Settle)
	case r.Lease > 0:
		text += fmt.Sprintf(", up to %g %% of it held in advance by instances", float64(r.Lease)/10)
	}
	return text
}
