package engine

import (
	"math"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/rules"
)

// adHocResult answers where a limit that the call itself brought refuses.
var adHocResult = &rules.Result{Number: -1, RetType: 2, ErrNo: 429, StrReason: "Deny"}

// decision turns the store's answers into a Decision.
func (w *work) decision(set *rules.Set, c *Call) *Decision {
	d := c.empty(len(c.Sets))
	d.Degraded, d.At = w.answers.Degraded, w.answers.Now
	for i := range d.Sets {
		w.answer(set, c, i, &d.Sets[i])
	}
	if d.Degraded && decides(c.Op) {
		w.applyPolicies(c.Op, d)
	}
	for i := range d.Sets {
		if v := d.Sets[i].Verdict; v != rules.Allow {
			d.Refuser, d.Verdict = i, v
			break
		}
	}
	return d
}

func (w *work) answer(set *rules.Set, c *Call, i int, a *Answer) {
	k, plan, from := &w.sets[i], &w.store.Sets[i], &w.answers.Sets[i]
	a.Matched, a.Retry, a.Hits = k.matched, -1, from.Hits
	switch c.Op {
	case Take, Browse:
		if plan.Refund {
			a.Result = k.fallback(set)
			break
		}
		a.Decider, a.Result = k.decider(set, from.Decider)
		a.Verdict = a.Result.Verdict()
		a.Shadow = k.shadows(from)
	case Complete, CompleteTake:
		a.Refusing = k.refusing(plan, from, w.answers.Degraded)
		a.Result = set.Results[0]
		for _, r := range a.Refusing {
			if v := r.Result.Verdict(); v != rules.Allow {
				a.Verdict = v
				break
			}
		}
	default: // the others decide nothing
	}
	// A direct rule that decides has no counter, and nothing else is reported.
	if from.Reporter >= 0 && (from.Decider >= 0 || k.direct == nil) {
		a.Limited = true
		a.Quota = quota(k.counting[from.Reporter], &plan.Rules[from.Reporter], from)
		if from.Retry >= 0 {
			a.Retry = milliseconds(from.Retry)
		}
	}
}

// decider is the rule that ended the walk, and the entry that answers.
func (k *walk) decider(set *rules.Set, index int) (*rules.Rule, *rules.Result) {
	if index < 0 {
		return k.direct, k.fallback(set)
	}
	if rule := k.counting[index]; rule != nil {
		return rule, rule.Result
	}
	return nil, adHocResult
}

// shadows are the shadow rules of the walk that would have decided, in the
// order of the file.
func (k *walk) shadows(from *store.Answer) []Shadow {
	var list []Shadow
	refusals := from.Refusals
	end := len(k.counting)
	if from.Decider >= 0 {
		end = from.Decider
	}
	for _, p := range k.passed {
		if p.at > end {
			break
		}
		for len(refusals) > 0 && refusals[0] < p.at {
			list, refusals = k.appendShadow(list, refusals[0]), refusals[1:]
		}
		list = append(list, Shadow{p.rule, p.rule.Result.Verdict()})
	}
	for _, i := range refusals {
		list = k.appendShadow(list, i)
	}
	return list
}

func (k *walk) appendShadow(list []Shadow, i int) []Shadow {
	if k.counting[i] == nil || !k.counting[i].Shadow {
		return list // one that does not decide in rescue
	}
	return append(list, Shadow{k.counting[i], k.counting[i].Result.Verdict()})
}

// refusing are the rules in force that would decide, in the order of the file;
// lenient ones do not in rescue.
func (k *walk) refusing(plan *store.Set, from *store.Answer, degraded bool) []*rules.Rule {
	var list []*rules.Rule
	refusals := from.Refusals
	next := func(before int) {
		for len(refusals) > 0 && refusals[0] < before {
			rule, isLenient := k.counting[refusals[0]], degraded && plan.Rules[refusals[0]].Lenient
			if rule != nil && !rule.Shadow && !isLenient {
				list = append(list, rule)
			}
			refusals = refusals[1:]
		}
	}
	for _, p := range k.passed {
		next(p.at)
		if !p.rule.Shadow {
			list = append(list, p.rule)
		}
	}
	next(len(k.counting))
	return list
}

// quota is the state of a reported counter. rule is nil for an ad-hoc limit.
func quota(rule *rules.Rule, plan *store.Rule, from *store.Answer) Quota {
	q := Quota{
		Rule:      rule,
		Limit:     from.Limit,
		Remaining: from.Remaining,
		Reset:     milliseconds(from.Reset),
		Window:    plan.Time,
	}
	switch {
	case from.Daily:
		q.Window = rules.Day
	case plan.Method == store.Token:
		q.Window = (plan.Burst*plan.Time + plan.Count - 1) / plan.Count
	}
	return q
}

// milliseconds is n of them, or the most that a Duration holds, 292 years: a
// large bucket may take longer to fill.
func milliseconds(n int64) time.Duration {
	return time.Duration(min(n, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}
