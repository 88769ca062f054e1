package engine

import (
	"maps"
	"net/http"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/rules"
)

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

// setFail sets the flags of a counter by the policy of its rule.
func (v *evaluation) setFail(counter *store.Rule, rule *rules.Rule) {
	fail := v.failOf(rule)
	counter.Lenient = fail == rules.FailAllow
	counter.Strict = fail == rules.FailGateway || fail == rules.FailDeny
}

// policy returns the strictest policy of the rules that input i reached, without
// shadow rules. FailAllow never wins: such a rule does not decide while Redis is
// unavailable, and the rules below it do.
func (v *evaluation) policy(op Op, i int) rules.FailPolicy {
	reached, decider := v.inputs[i].counting, v.answers.Sets[i].Decider
	if decider >= 0 && (op == Take || op == Browse) {
		reached = reached[:decider+1]
	}
	strictest := rules.FailAllow
	for _, rule := range reached {
		if rule == nil || !rule.Shadow {
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
