package engine

import (
	"maps"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/koalagate/koalagate/internal/method"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/rules"
)

// adHocResult answers an input that the ad-hoc rule of an override refuses.
var adHocResult = &rules.Result{Number: -1, RetType: 2, ErrNo: 429, StrReason: "Deny"}

// These answer an input that exceeds a bound.
var (
	overweightResult   = excess("the weight of the request is too large")
	tooManyRulesResult = excess("the request meets too many rules")
)

func excess(detail string) *rules.Result {
	return &rules.Result{Number: -1, RetType: 2, ErrNo: 429, StrReason: "Deny", HTTPStatus: http.StatusTooManyRequests, ErrMsg: detail}
}

// decision builds a Decision from the answers of the store.
func (v *evaluation) decision(c *Call) *Decision {
	d := c.empty(len(c.Inputs))
	d.Degraded, d.At, d.StoreTime = v.answers.Degraded, v.answers.Now, v.answers.Took
	for i := range d.Answers {
		v.answer(c, i, &d.Answers[i])
	}
	if d.Degraded && c.Op.Decides() {
		v.applyPolicies(c.Op, d)
	}
	if d.Unavailable {
		return d
	}
	d.Verdict, d.Wait, d.Waiter = rules.Allow, milliseconds(v.answers.Wait), v.waiter()
	for i := range d.Answers {
		if verdict := d.Answers[i].Verdict; verdict != rules.Allow {
			d.Refuser, d.Verdict, d.Wait, d.Waiter = i, verdict, 0, nil
			break
		}
	}
	return d
}

// waiter returns the rule behind the wait of the answers.
func (v *evaluation) waiter() *rules.Rule {
	if v.answers.Wait == 0 {
		return nil
	}
	set, rule := v.answers.Waiter[0], v.answers.Waiter[1]
	return v.inputs[set].counting[rule]
}

// answer fills the answer about input i.
func (v *evaluation) answer(c *Call, i int, a *Answer) {
	m, plan, from := &v.inputs[i], &v.plan.Sets[i], &v.answers.Sets[i]
	a.Verdict, a.Matched, a.Retry, a.Hits = rules.Allow, m.matched, -1, from.Hits
	if len(m.exceptions) > 0 {
		a.Exceptions = slices.Clone(m.exceptions)
	}
	if m.ban != nil {
		a.setBan(m.ban, m.banTime)
		return
	}
	switch c.Op {
	case Take, Browse:
		if m.excess != nil {
			a.Result = m.excess
			a.Verdict = a.Result.Verdict()
			break
		}
		if plan.Refund {
			a.Result = m.fallback(v.rules)
			break
		}
		a.Decider, a.Result = m.decider(v.rules, from.Decider)
		a.Verdict = a.Result.Verdict()
		a.Shadow, a.Marked = m.shadows(from), m.marked(from)
	case Complete, CompleteTake:
		a.Refusing, a.Marked = m.refusing(plan, from, v.answers.Degraded), m.marked(from)
		if a.Result = v.rules.Results[0]; m.sourced {
			a.Result = unruled
		}
		for _, r := range a.Refusing {
			if verdict := r.Result.Verdict(); verdict != rules.Allow {
				a.Verdict = verdict
				break
			}
		}
	default: // the other operations decide nothing
	}
	// If a direct rule decides, no counter is reported.
	if from.Reporter >= 0 && (from.Decider >= 0 || m.direct == nil) {
		a.Limited = true
		a.Quota = quota(m.counting[from.Reporter], &plan.Rules[from.Reporter], from)
		if from.Retry >= 0 {
			a.Retry, a.retry = milliseconds(from.Retry), beyond(from.Retry)
		}
	}
}

// observed returns the matches of an input for ObserveMatches.
func (m *matchedInput) observed(a *Answer) []rules.Match {
	list := m.matches.List
	if (a.Decider == nil || a.Decider.Counts()) && len(a.Refusing) == 0 {
		return list
	}
	for i := range list {
		r := list[i].Rule
		if !r.Counts() && r.Result.Verdict() != rules.Allow && (r == a.Decider || slices.Contains(a.Refusing, r)) {
			list[i].Identity = m.matches.Identify(i)
		}
	}
	return list
}

// decider returns the rule that decided, and the entry that answers.
func (m *matchedInput) decider(rs *rules.Set, index int) (*rules.Rule, *rules.Result) {
	if index < 0 {
		return m.direct, m.fallback(rs)
	}
	if rule := m.counting[index]; rule != nil {
		return rule, rule.Result
	}
	return nil, adHocResult
}

// shadows returns the shadow rules above the decider that would have decided, in
// the order of the file.
func (m *matchedInput) shadows(from *store.Answer) []Shadow {
	var list []Shadow
	refusals := from.Refusals
	end := len(m.counting)
	if from.Decider >= 0 {
		end = from.Decider
	}
	for _, p := range m.passed {
		if p.at > end {
			break
		}
		for len(refusals) > 0 && refusals[0] < p.at {
			list, refusals = m.appendShadow(list, refusals[0]), refusals[1:]
		}
		list = append(list, Shadow{p.rule, p.rule.Result.Verdict()})
	}
	for _, i := range refusals {
		list = m.appendShadow(list, i)
	}
	return list
}

func (m *matchedInput) appendShadow(list []Shadow, i int) []Shadow {
	if m.counting[i] == nil || !m.counting[i].Shadow {
		return list // a rule with fail=allow, which does not decide in rescue
	}
	return append(list, Shadow{m.counting[i], m.counting[i].Result.Verdict()})
}

// marked returns the rules that marked the input, in the order of the file.
func (m *matchedInput) marked(from *store.Answer) []*rules.Rule {
	var list []*rules.Rule
	for _, i := range from.Refusals {
		if r := m.counting[i]; r != nil && r.Mark != "" {
			list = append(list, r)
		}
	}
	return list
}

// refusing returns the rules that would decide, in the order of the file, without
// shadow rules, marked rules and, in rescue, without rules with fail=allow.
func (m *matchedInput) refusing(plan *store.Set, from *store.Answer, degraded bool) []*rules.Rule {
	var list []*rules.Rule
	refusals := from.Refusals
	appendBefore := func(before int) {
		for len(refusals) > 0 && refusals[0] < before {
			rule, isLenient := m.counting[refusals[0]], degraded && plan.Rules[refusals[0]].Lenient
			if rule != nil && rule.Enforced() && !isLenient {
				list = append(list, rule)
			}
			refusals = refusals[1:]
		}
	}
	for _, p := range m.passed {
		appendBefore(p.at)
		if !p.rule.Shadow {
			list = append(list, p.rule)
		}
	}
	appendBefore(len(m.counting))
	return list
}

// quota returns the state of a reported counter. rule is nil for an ad-hoc rule.
func quota(rule *rules.Rule, plan *store.Rule, from *store.Answer) Quota {
	q := Quota{
		Rule:      rule,
		Limit:     from.Limit,
		Remaining: from.Remaining,
		Reset:     milliseconds(from.Reset),
		reset:     beyond(from.Reset),
		Window:    plan.Time,
	}
	switch {
	case from.Daily:
		q.Window = rules.Day
	case method.Of(plan.Method).Refills && plan.Count > 0:
		q.Window = (plan.Burst*plan.Time + plan.Count - 1) / plan.Count
	}
	return q
}

// beyond returns n ms that no Duration holds, 0 for others.
func beyond(n int64) int64 {
	if n > math.MaxInt64/int64(time.Millisecond) {
		return n
	}
	return 0
}

// milliseconds returns n ms, or the largest Duration, 292 years, if that is
// shorter: a large bucket may take longer to fill.
func milliseconds(n int64) time.Duration {
	return time.Duration(min(n, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

// Policies maps the names of doors to their policies while Redis is unavailable. A
// rule without fail= takes the policy of its door; for a rule with fail=, the
// stricter of both applies. Doors that are not listed, or with FailUnset, have no
// policy: their rules without fail= count in process. An unknown policy acts as
// FailDeny.
type Policies map[string]rules.FailPolicy

// WithPolicies sets the policies of the doors while Redis is unavailable.
func WithPolicies(p Policies) Option {
	p = maps.Clone(p)
	return setting(func(s *settings) { s.policies = p })
}

// unavailableResult answers an input that is refused because the store is
// unavailable and a rule or its door has the policy deny.
var unavailableResult = &rules.Result{Number: -1, RetType: 2, ErrNo: http.StatusServiceUnavailable, StrReason: "Deny", HTTPStatus: http.StatusServiceUnavailable}

// failOf returns the policy of a rule at the door of the call; rule is nil for the
// ad-hoc rule of an override.
func (v *evaluation) failOf(rule *rules.Rule) rules.FailPolicy {
	policy := v.door
	if rule != nil {
		policy = max(policy, rule.Fail)
	}
	if policy == rules.FailUnset {
		return rules.FailRescue
	}
	return min(policy, rules.FailDeny)
}

// setFail sets the flags of a counter by the policy of its rule. Without a policy of the rule and
// of the door there are none.
func (v *evaluation) setFail(counter *store.Rule, rule *rules.Rule) {
	fail := v.failOf(rule)
	counter.Lenient = fail == rules.FailAllow
	counter.Strict = fail == rules.FailGateway || fail == rules.FailDeny
}

// policy returns the strictest policy of the rules that input i reached, without
// shadow rules and marked rules. FailAllow never wins: such a rule does not decide while Redis is
// unavailable, and the rules below it do.
func (v *evaluation) policy(op Op, i int) rules.FailPolicy {
	reached, decider := v.inputs[i].counting, v.answers.Sets[i].Decider
	if decider >= 0 && (op == Take || op == Browse) {
		reached = reached[:decider+1]
	}
	return v.strictest(reached)
}

// strictest returns the strictest policy of rules, nil for the ad-hoc rule of an override,
// without shadow rules and marked rules.
func (v *evaluation) strictest(list []*rules.Rule) rules.FailPolicy {
	strictest := rules.FailAllow
	for _, rule := range list {
		if rule == nil || rule.Enforced() {
			strictest = max(strictest, v.failOf(rule))
		}
	}
	return strictest
}

// applyPolicies changes a decision of the in-process store as the rules and their
// door require. Over all inputs, deny is stricter than gateway.
func (v *evaluation) applyPolicies(op Op, d *Decision) {
	strictest := rules.FailAllow
	for i := range d.Answers {
		if v.plan.Sets[i].Refund {
			continue
		}
		policy := v.policy(op, i)
		if policy == rules.FailDeny {
			d.Answers[i] = Answer{Verdict: rules.Deny, Matched: true, Result: unavailableResult, Retry: -1}
		}
		strictest = max(strictest, policy)
	}
	if strictest == rules.FailGateway {
		*d = Decision{Verdict: rules.Deny, Refuser: -1, At: d.At, Degraded: true, Unavailable: true}
	}
}
