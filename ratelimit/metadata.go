package ratelimit

import (
	"github.com/koalagate/koalagate/engine"
)

// appendMetadata appends the decision for Envoy's access log and later filters,
// which find it in the namespace envoy.filters.http.ratelimit. It goes to the
// gateway alone and so holds quotas that clients are not told of.
func appendMetadata(b []byte, d *engine.Decision) []byte {
	var room [256]byte // all facts fit
	i := telling(d)
	a := &d.Sets[i]
	facts := appendTextFact(room[:0], "verdict", a.DecisionWord())
	facts = appendNumberFact(facts, "descriptor", int64(i))
	if a.Result.Number >= 0 { // a limit that the call brought has no entry
		facts = appendNumberFact(facts, "result", int64(a.Result.Number))
	}
	if a.Decider != nil {
		facts = appendNumberFact(facts, "rule", a.Decider.Return)
	}
	if a.Limited {
		facts = appendNumberFact(facts, "limit", a.Quota.Limit)
		facts = appendNumberFact(facts, "remaining", a.Quota.Remaining)
		facts = appendNumberFact(facts, "reset", engine.Seconds(a.Quota.Reset))
	}
	if d.Degraded {
		facts = appendTrueFact(facts, "degraded")
	}
	return appendMessage(b, replyMetadata, facts)
}
