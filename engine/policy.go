package engine

import (
	"net/http"

	"github.com/koalagate/koalagate/rules"
)

// Policies say what holds at each door while Redis is away, by the door's name.
// A rule without fail= takes its door's policy; of a rule with one the stricter
// of both holds. FailUnset, as of every door that is not named, is no policy:
// rules without fail= are then rescued.
type Policies map[string]rules.FailPolicy

// WithPolicies sets what holds at the doors while Redis is away.
func WithPolicies(p Policies) Option {
	return func(e *Engine) { e.policies = p }
}

// awayResult answers where the store is away and a rule or its door says deny.
var awayResult = &rules.Result{Number: -1, RetType: 2, ErrNo: http.StatusServiceUnavailable, StrReason: "Deny", HTTPStatus: http.StatusServiceUnavailable}

// failOf is the policy of a rule at the call's door; nil stands for the limit
// that a call brings itself.
func (w *work) failOf(rule *rules.Rule) rules.FailPolicy {
	policy := w.door
	if rule != nil {
		policy = max(policy, rule.Fail)
	}
	if policy == rules.FailUnset {
		return rules.FailRescue
	}
	return policy
}

// policy is what the rules that a set has walked in force say of a store that
// is away: the strictest of them holds. FailAllow is not among them: in rescue
// such a rule does not decide at all, and the walk goes on below it.
func (w *work) policy(op Op, i int) rules.FailPolicy {
	walked, decider := w.sets[i].counting, w.answers.Sets[i].Decider
	if decider >= 0 && (op == Take || op == Browse) {
		walked = walked[:decider+1]
	}
	strictest := rules.FailAllow
	for _, rule := range walked {
		if rule == nil || !rule.Shadow {
			strictest = max(strictest, w.failOf(rule))
		}
	}
	return strictest
}

// applyPolicies makes of an answer in rescue what the rules and their door say.
// To deny is stricter than to leave it to the gateway, over all sets.
func (w *work) applyPolicies(op Op, d *Decision) {
	strictest := rules.FailAllow
	for i := range d.Sets {
		if w.store.Sets[i].Refund {
			continue
		}
		policy := w.policy(op, i)
		if policy == rules.FailDeny {
			d.Sets[i] = Answer{Verdict: rules.Deny, Matched: true, Result: awayResult, Retry: -1}
		}
		strictest = max(strictest, policy)
	}
	if strictest == rules.FailGateway {
		*d = Decision{Verdict: rules.Deny, Refuser: -1, At: d.At, Degraded: true, Unavailable: true}
	}
}
