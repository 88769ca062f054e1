package ratelimit

import (
	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/wire"
)

// appendMetadata appends the decision for Envoy's access log and later filters,
// which find it in the namespace envoy.filters.http.ratelimit. It goes to the
// gateway alone and so holds quotas that clients are not told of. Shadow rules are
// those of all descriptors.
func appendMetadata(b []byte, d *engine.Decision) []byte {
	i := telling(d)
	a := &d.Answers[i]
	b, from := wire.Begin(b, replyMetadata)
	b = wire.AppendTextFact(b, "verdict", a.DecisionWord())
	b = wire.AppendNumberFact(b, "descriptor", int64(i))
	if a.Result.Number >= 0 { // a limit that the call brought has no entry
		b = wire.AppendNumberFact(b, "result", int64(a.Result.Number))
	}
	if a.Decider != nil {
		b = wire.AppendNumberFact(b, "rule", a.Decider.Return)
	}
	if a.Limited {
		b = wire.AppendNumberFact(b, "limit", a.Quota.Limit)
		b = wire.AppendNumberFact(b, "remaining", a.Quota.Remaining)
		b = wire.AppendNumberFact(b, "reset", engine.Seconds(a.Quota.Reset))
	}
	if shadow := d.ShadowRules(); shadow != nil {
		b = wire.AppendNumbersFact(b, "shadow", shadow)
	}
	if d.Degraded {
		b = wire.AppendTrueFact(b, "degraded")
	}
	return wire.End(b, from)
}
