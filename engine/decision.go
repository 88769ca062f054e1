package engine

import (
	"slices"
	"time"

	"github.com/koalagate/koalagate/rules"
)

// Decision is what a door has to tell its caller. It knows no protocol.
type Decision struct {
	// Verdict is that of the first set that is refused, else Allow.
	Verdict rules.Verdict
	// Refuser is the index of the first set that is refused, -1 if none is.
	Refuser int
	Sets    []Answer
	// At is the time of the decision by the store's clock, in ms since the
	// epoch; 0 where no counter was asked and the call brought no clock.
	At int64
	// Degraded tells that the rescue store answered: the counters are this
	// instance's own until Redis is back.
	Degraded bool
	// Unavailable tells that no store could answer, or none but the rescue
	// store and a rule says fail=gateway: the gateway is to decide what holds
	// then. Sets is empty and Verdict is Deny.
	Unavailable bool
	// Cause is the store's error behind Unavailable, for the log; nil where a
	// rule's fail=gateway is.
	Cause error

	document []byte // that of the last Refusal
}

// Answer is the decision about one parameter set.
type Answer struct {
	Verdict rules.Verdict
	// Mode is that of the call's door, "" for ModeEnforce. Any other has
	// Verdict allow.
	Mode Mode
	// Observed is the verdict that ModeObserve has overruled; allow without one.
	Observed rules.Verdict
	// Matched tells whether any rule matched.
	Matched bool
	// Decider is the rule that ended the walk, nil without one.
	Decider *rules.Rule
	// Result is the entry that applies; never nil after take and browse. Its
	// Number is below 0 where it is no entry of [result]: for a limit that the
	// call itself brought, and where a mode lets pass what was not decided.
	Result *rules.Result
	// Limited tells whether a counting rule decided or is reported, and so
	// whether Quota says anything.
	Limited bool
	Quota   Quota
	// Retry is when the same weight would fit; negative where no time can be
	// named or nothing was refused by a counting rule.
	Retry time.Duration
	// Shadow are the rules with shadow=1 that would have decided: a counting
	// rule that refused the weight, a direct rule that matched.
	Shadow []Shadow
	// Hits is what is counted now, of a base rule the day's hits; peek only.
	Hits int64
	// Refusing are the rules that would decide; browse-complete only.
	Refusing []*rules.Rule
}

// Quota is the state of the reported rule's counter after the decision.
type Quota struct {
	Rule      *rules.Rule   // nil for a limit that the call itself brought
	Limit     int64         // hits
	Remaining int64         // hits
	Reset     time.Duration // until the counter is as new, whole milliseconds; 292 years at most
	Window    int64         // the seconds that Limit belongs to
}

// Shadow is a rule that would have decided, had it been in force.
type Shadow struct {
	Rule    *rules.Rule
	Verdict rules.Verdict
}

// ShadowRules are the numbers of all rules that are the Shadow of a set, each
// once; nil if there are none.
func (d *Decision) ShadowRules() []int64 {
	var numbers []int64
	for i := range d.Sets {
		for _, s := range d.Sets[i].Shadow {
			if !slices.Contains(numbers, s.Rule.Return) {
				numbers = append(numbers, s.Rule.Return)
			}
		}
	}
	return numbers
}
