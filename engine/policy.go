package engine

import (
	"net/http"

	"github.com/koalagate/koalagate/rules"
	"github.com/koalagate/koalagate/store"
)

// awayResult answers where the store is away and a rule says fail=deny.
var awayResult = &rules.Result{Number: -1, RetType: 2, ErrNo: http.StatusServiceUnavailable, StrReason: "Deny", HTTPStatus: http.StatusServiceUnavailable}

// policy is what the rules that a set has walked in force say of a store that
// is away: the strictest of them holds. fail=allow is not among them: in
// rescue such a rule does not decide at all, and the walk goes on below it.
func (k *walk) policy(from *store.Answer) rules.FailPolicy {
	walked := k.counting
	if from.Decider >= 0 {
		walked = walked[:from.Decider+1]
	}
	strictest := rules.FailRescue
	for _, rule := range walked {
		if rule != nil && !rule.Shadow {
			strictest = max(strictest, rule.Fail)
		}
	}
	return strictest
}

// applyPolicies makes of an answer in rescue what the rules' fail= say. To deny
// is stricter than to leave it to the gateway, over all sets.
func (w *work) applyPolicies(d *Decision) {
	strictest := rules.FailRescue
	for i := range d.Sets {
		if w.store.Sets[i].Refund {
			continue
		}
		policy := w.sets[i].policy(&w.answers.Sets[i])
		if policy == rules.FailDeny {
			d.Sets[i] = Answer{Verdict: rules.Deny, Matched: true, Result: awayResult, Retry: -1}
		}
		strictest = max(strictest, policy)
	}
	if strictest == rules.FailGateway {
		*d = Decision{Verdict: rules.Deny, Refuser: -1, At: d.At, Degraded: true, Unavailable: true}
	}
}
