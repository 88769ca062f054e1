package rules

import "github.com/koalagate/koalagate/internal/method"

// Unassignable returns the word of the rule language because of which no share of the rule's
// limit can be assigned to a gateway that decides by itself, or which the rule lacks for that;
// "" if shares can be. It knows the rule alone: stores also refuse limits that a request
// makes too small. For koalagate's own programs, may change.
func (r *Rule) Unassignable() string {
	switch {
	case !method.Of(r.Method).Leases:
		return r.Method.String()
	case r.Lease == 0:
		return "lease"
	case r.Cost != "":
		return "cost"
	case r.Settle > 0:
		return "settle"
	case r.Wait > 0:
		return "wait"
	case r.Overdraft:
		return "overdraft"
	case method.Of(r.Method).Windows && r.Unit < Minute && r.Time < method.ShortestShared && len(r.Thresholds) == 0:
		return "time"
	case r.Result.Verdict() == Allow:
		return "result" // requests above the limit reach no further rule
	}
	return ""
}
