package store

import "fmt"

// maxNow is the largest clock value of a plan: instants take six bytes in Redis.
const maxNow = 1 << 46

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
	if p.Now < 0 || p.Now > maxNow {
		return fmt.Errorf("plan: now is %d; want 0 … %d ms", p.Now, int64(maxNow))
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
	maxLimit  = 1<<32 - 1
)

// fault describes what is invalid about a rule, "" if it is valid.
func (r *Rule) fault() string {
	switch {
	case r.Return < 0 || r.Return > maxReturn:
		return "return is out of range"
	case r.Weight < 0 || r.Weight > MaxWeight:
		return "weight is out of range"
	case r.Time < 1 || r.Time > maxTime:
		return "time is out of range"
	case r.Count < 0 || r.Count > maxLimit:
		return "count is out of range"
	}
	switch r.Method {
	case Count, Leak:
	case Base:
		if r.Base < 1 || r.Base > maxLimit {
			return "base is out of range"
		}
	case Token:
		if r.Count < 1 || r.Burst < 1 || r.Burst > (MaxCounter+1)/(r.Time*1000) {
			return "count or burst is out of range"
		}
	default:
		return "unknown method"
	}
	return ""
}
