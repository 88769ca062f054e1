package store

import (
	"fmt"

	"github.com/koalagate/koalagate/internal/method"
)

// MaxNow is the largest clock value of a plan, in ms since the epoch: instants take six
// bytes in Redis.
const MaxNow = 1 << 46

// MaxRules is the largest number of rules of a plan, over all sets: a plan
// occupies Redis for some microseconds per rule, and its Lua cannot return more
// values at once.
const MaxRules = 2048

// Validate returns an error that describes the first invalid part of the plan.
// Rules are checked when they are loaded and weights when a call is planned, so
// an error here is a fault of the program that must not reach the counters.
func (p *Plan) Validate() error {
	if p.Op < Take || p.Op > Reset {
		return fmt.Errorf("plan: unknown operation %d", p.Op)
	}
	if p.Now < 0 || p.Now > MaxNow {
		return fmt.Errorf("plan: now is %d; want 0 … %d ms", p.Now, int64(MaxNow))
	}
	if p.Patience < 0 {
		return fmt.Errorf("plan: patience is %d ms; want 0 or more", p.Patience)
	}
	rules := 0
	for i := range p.Sets {
		if rules += len(p.Sets[i].Rules); rules > MaxRules {
			return fmt.Errorf("plan: more than %d rules; split the rule set or the call", MaxRules)
		}
		for j := range p.Sets[i].Rules {
			if fault := p.Sets[i].Rules[j].fault(); fault != "" {
				return fmt.Errorf("plan: set %d, rule %d (return %d): %s", i, j, p.Sets[i].Rules[j].Return, fault)
			}
		}
	}
	return nil
}

// The largest thresholds. Rule files allow less; both stores compute exactly up
// to these.
const (
	maxReturn = 1<<31 - 1
	maxTime   = 366 * Day
	maxLimit  = 9_000_000_000_000_000
	maxBan    = 366 * Day
	maxWait   = 60_000 // ms
	maxSettle = 7 * Day
	maxLease  = 200 // thousandths
)

// waitFits reports whether burst × time plus count × wait of a token rule, in ms, is
// at most 2^53.
func (r *Rule) waitFits() bool {
	return r.Wait == 0 || r.Count <= (MaxCounter+1-r.Burst*r.Time*1000)/r.Wait
}

// within reports whether x is in the range low … high.
func within(x, low, high int64) bool { return low <= x && x <= high }

// fault describes what is invalid about a rule, "" if it is valid.
func (r *Rule) fault() string {
	switch {
	case !within(r.Return, 0, maxReturn):
		return "return is out of range"
	case !within(r.Weight, 0, MaxWeight):
		return "weight is out of range"
	case r.Unit < Minute && !within(r.Time, 1, maxTime):
		return "time is out of range"
	case !within(r.Count, 0, maxLimit):
		return "count is out of range"
	}
	if fault := r.faultOfUnit(); fault != "" {
		return fault
	}
	if fault := r.faultOfWords(); fault != "" {
		return fault
	}
	switch is := method.Of(r.Method); {
	case !is.Counts:
		return "unknown method"
	case is.FirstFree && !within(r.Base, 1, maxLimit):
		return "base is out of range"
	case is.Refills && (!within(r.Burst, 0, (MaxCounter+1)/(r.Time*1000)) || !r.waitFits()):
		return "count, burst or wait is out of range"
	}
	return ""
}

// lastFrom is the largest From of each unit.
var lastFrom = [...]uint8{Week: 7, Month: 31, Year: 0}

// faultOfUnit describes what is invalid about Unit and From.
func (r *Rule) faultOfUnit() string {
	switch {
	case r.Unit > Year || r.Unit != Seconds && !method.Of(r.Method).Windows:
		return "unit is unknown, or not allowed for the method"
	case r.From > lastFrom[r.Unit]:
		return "from is out of range"
	}
	return ""
}

// faultOfWords describes what is invalid about Overdraft, Ban, Wait, Settle, Outcome and Lease.
func (r *Rule) faultOfWords() string {
	is := method.Of(r.Method)
	switch {
	case r.Overdraft && !is.Settles:
		return "a base or hold rule has no overdraft"
	case !within(r.Ban, 0, maxBan) || r.Ban > 0 && !is.Bans:
		return "ban is out of range, or not on a count or leak rule"
	case !within(r.Wait, 0, maxWait) || r.Wait > 0 && !is.Waits:
		return "wait is out of range, or not on a token rule"
	case !within(r.Settle, 0, maxSettle) || r.Settle > 0 && !is.Settles:
		return "settle is out of range, or not on a count, leak or token rule"
	case r.Outcome && (r.Settle == 0 || r.Wait > 0):
		return "an outcome rule has no settle, or a wait"
	}
	return r.faultOfLease()
}

// faultOfLease describes what is invalid about Lease.
func (r *Rule) faultOfLease() string {
	if !within(r.Lease, 0, maxLease) || r.Lease > 0 && (!method.Of(r.Method).Leases || r.Settle > 0 || r.Wait > 0) {
		return "lease is out of range, or not on a plain count or token rule"
	}
	return ""
}
