// Package store is the contract of the stores that keep counters. A Plan names
// the counters that a request touches, with their thresholds; a Store decides
// and counts the whole plan in one atomic step and fills Answers. No store
// knows rule files.
//
// The stores are subpackages: memory keeps counters in this process, redis in one Redis
// server, cluster in a Redis Cluster, rescue answers from memory while Redis is unreachable,
// and lease from parts of limits that it holds in advance. Package remote opens redis or
// cluster by URL; redisconn connects to servers, and breaker decides when to stop calling
// one. Package storetest holds the behavior table that every store passes.
//
// # What only the response shows
//
// Three kinds of rules learn how a request ended, see Rule.Part: rules with Settle
// reserve an estimate, Hold rules hold weight, and Outcome rules are charged when the
// outcome is known. An allowed take on which they have a part is answered with a
// receipt, one for all of its sets. Settle spends the receipt in one atomic step:
// estimates become what was used, holds end, outcomes are charged. A receipt expires
// after the longest span of its rules; estimates then stand, and holds have run out.
// Receipts and what Cancel gives back are records of the same changes: a store keeps the
// record of a take, and undoes or amends it.
package store

import (
	"context"
	"fmt"
	"time"

	"github.com/koalagate/koalagate/internal/method"
)

// Method is how a counter counts. Tag has room for numbers below Methods, of which
// lua/lease.lua has 0 and lua/receipts.lua has 6 for entries that are no counters.
type Method = method.Number

// Methods is above the numbers of all methods.
const Methods = method.Numbers

// The counting methods.
const (
	Count = method.Count
	Base  = method.Base
	Leak  = method.Leak
	Token = method.Token
	Hold  = method.Hold
)

// Op is the operation of a plan.
type Op uint8

// The operations. Take, Browse and Complete walk the rules of a set in order.
const (
	Take         Op = 1 // decide, and count everything if every set allows
	Browse       Op = 2 // decide, count nothing
	Update       Op = 3 // count on every rule, regardless of limits
	Refund       Op = 4 // give back on every rule
	Complete     Op = 5 // report every rule that would refuse, count nothing
	CompleteTake Op = 6 // like Complete, and count everything if no rule refuses
	Peek         Op = 7 // report the state of one rule for one subject
	Reset        Op = 8 // delete the state of one rule for one subject
)

// Day is the Time that makes a Count window the calendar day, in seconds.
const Day = 86400

// Unit is the unit of the windows of a Count rule. The numbers are part of the
// encoding of plans and never change.
type Unit uint8

// The units. The calendar units follow the plan's zone.
const (
	Seconds Unit = 0 // windows of Time seconds that their first hit opens; Time Day: the calendar day
	Epoch   Unit = 1 // windows of Time seconds that begin at whole multiples of Time since 1970 UTC
	Minute  Unit = 2
	Hour    Unit = 3
	Date    Unit = 4 // the calendar day
	Week    Unit = 5 // begins on the day From, 1 (Monday) … 7; 0 is 1
	Month   Unit = 6 // begins on the day From, 1 … 31, or on the last day of a shorter month; 0 is 1
	Year    Unit = 7
)

// MaxWeight is the largest weight of a rule. Callers of Evaluate refuse larger ones.
const MaxWeight = 1_000_000_000_000_000

// MaxCounter is the value at which counters saturate: the largest integer that
// a double, and therefore Redis's Lua, holds exactly.
const MaxCounter = 1<<53 - 1

// Never is the Retry of a weight that does not fit into an empty counter.
const Never = -1

// Plan is one atomic step over several parameter sets.
//
// A store decides the sets of a Take in order, and each set sees the hits of the sets
// before it. If all sets allow, the store counts everything. If one refuses, the store
// undoes everything but overdrafts and bans. A refused set then reports the state that
// refused it. Every other set reports what a Browse would report now, except that rules
// with an overdraft or a ban keep the answers that they gave.
//
// A CompleteTake asks all rules, but records only the overdrafts and bans that a Take
// would record: the rules below its decider record and ban nothing.
type Plan struct {
	Op   Op
	Now  int64          // ms since the epoch; 0: the store's own clock
	Zone *time.Location // of the calendar days; never nil
	Sets []Set

	// Patience is the longest time that the caller of a take can wait for its
	// turn, in ms. A rule with Wait admits a weight that must wait longer only
	// if neither its own Wait nor Patience is exceeded.
	Patience int64

	// InRescue reports that the plan is evaluated in process because Redis is
	// unreachable. Only then do Strict rules refuse. Package rescue sets it.
	InRescue bool
}

// Set is one parameter set of a plan: the counting rules that match it, in
// order, up to the rule that decides without counting.
type Set struct {
	// Refund makes this set of a Take give its weights back if no other set
	// is refused. It never refuses.
	Refund bool
	// Allows reports whether the set is allowed when none of its rules
	// decides: the answer of a [result] entry or of a direct rule.
	Allows bool
	Rules  []Rule
}

// Rule is one counter of a set with its thresholds.
type Rule struct {
	Subject []byte // the counted identity: any bytes; equal bytes are one subject
	Return  int64  // the rule's number, 0 … 2 147 483 647; with Subject and Method it identifies the counter
	Weight  int64  // 0 … MaxWeight
	Time    int64  // seconds; not used by calendar units. Hold: how long a hold lasts
	Unit    Unit   // Count only
	From    uint8  // Week and Month only
	Count   int64  // Token: 0 admits nothing
	Base    int64  // Base only
	Burst   int64  // Token only
	Method  Method
	Shadow  bool // never decides; counted like the others
	// Marked rules never decide either: a weight that they refuse passes, and is counted
	// beyond the limit as if it had been admitted. No Shadow, Ban, Wait and Lease beside it.
	Marked bool
	// Overdraft records the weight when a take reaches the rule, whatever the
	// verdict of the rule, of its set and of the other sets. A bucket goes below
	// empty. A weight of 0 is admitted only if 1 fits. Count, Leak and Token only.
	Overdraft bool
	// Ban is the length in seconds of the ban that a refusal opens; 0 opens none. A
	// take opens it if the rule decides, or is a shadow rule above the decider, and
	// the weight is 1 … Count. Until its end the rule refuses everything and records
	// nothing, even if its thresholds change; then the counter is unused. Reset lifts
	// it. Count and Leak only.
	Ban int64
	// Wait is the longest wait for a turn, in ms; 0 refuses what does not fit now. A
	// weight above Burst never waits. Token only.
	Wait int64
	// Settle is how long a receipt for this rule is valid, in seconds. A rule with it
	// records an estimate, which a settlement replaces by what was used; an estimate of
	// 0 is admitted only if 1 fits. 0 for rules without it, and for Hold, whose Time it
	// is. Count, Leak and Token only.
	Settle int64
	// Outcome rules admit a weight if 1 fits, and record nothing in a take: a
	// settlement records the weight if the outcome calls for it. They need Settle.
	// Update and Refund do not change them, nor counters of Hold.
	Outcome bool
	// Lease is the largest part of the limit, in thousandths, that instances may hold in
	// advance, see Lessor; 0 for none. Count and Token without Settle, Wait and Outcome
	// only. A store in process, which no other instance shares, ignores it.
	Lease int64
	// Lenient rules do not decide in rescue; they are still counted.
	Lenient bool
	// Strict rules refuse, in rescue, every take that reaches them, whatever
	// their counters hold; such a take counts nothing.
	Strict bool
	Allows bool // allow the set if this rule decides: it ends the walk, and the rules above it are counted
}

// Tag identifies the rule's counter within its subject. It is part of the
// layout in Redis.
func (r *Rule) Tag() int64 { return r.Return*Methods + int64(r.Method) }

// Period returns the calendar unit that the rule counts by; the zero Period if it
// counts by none.
func (r *Rule) Period() Period {
	switch {
	case method.Of(r.Method).FirstFree, method.Of(r.Method).Windows && r.Unit == Seconds && r.Time == Day:
		return Period{Unit: Date}
	case method.Of(r.Method).Windows && r.Unit >= Minute:
		return Period{r.Unit, r.From}
	}
	return Period{}
}

// Waits reports whether a rule of the plan has a Wait.
func (p *Plan) Waits() bool {
	for i := range p.Sets {
		for j := range p.Sets[i].Rules {
			if p.Sets[i].Rules[j].Wait > 0 {
				return true
			}
		}
	}
	return false
}

// Leases reports whether a rule of the plan has a Lease.
func (p *Plan) Leases() bool {
	for i := range p.Sets {
		for j := range p.Sets[i].Rules {
			if p.Sets[i].Rules[j].Lease > 0 {
				return true
			}
		}
	}
	return false
}

// Enforced reports whether the rule decides what it refuses.
func (r *Rule) Enforced() bool { return !r.Shadow && !r.Marked }

// Settles reports whether the rule may have a part in a receipt.
func (r *Rule) Settles() bool { return r.Settle > 0 || method.Of(r.Method).Holds }

// Settles reports whether a rule of the plan may have a part in a receipt.
func (p *Plan) Settles() bool {
	for i := range p.Sets {
		for j := range p.Sets[i].Rules {
			if p.Sets[i].Rules[j].Settles() {
				return true
			}
		}
	}
	return false
}

// Answers is the result of Evaluate. Reusing it saves allocations.
type Answers struct {
	Sets []Answer // one per set, in order
	// Degraded reports that the in-process store answered in place of Redis.
	Degraded bool
	// Now is the store's clock at the step, ms since the epoch.
	Now int64
	// Wait is the time until the turn of an allowed take, in ms: the longest of its
	// rules. It is 0 if the take is refused. A browse reports it too.
	Wait int64
	// Waiter is the rule behind Wait: the indices of its set and of the rule in the
	// set. It has a meaning only if Wait is not 0.
	Waiter [2]int
	// Receipt is the receipt of an allowed take on which rules have a part that a
	// settlement concerns, see Rule.Part; "" for others.
	Receipt string
	// Undo is what Canceler needs to know of a take that waits or has a receipt; nil
	// for others. Only the store that filled it knows its type.
	Undo any
	// Took is the time of the evaluation, if the store measures it.
	Took time.Duration
}

// Answer is the result for one set.
type Answer struct {
	// Decider is the index of the rule that decided, -1 if none did.
	Decider int
	// Reporter is the index of the rule that the numbers below belong to, -1
	// if there is nothing to report. It is the decider, or without one the
	// walked rule that is not a shadow rule and has the least remaining; the
	// first of several.
	Reporter int
	// Refusals are indices of refusing rules: in a walk, the shadow rules and the marked
	// rules that were reached and would have refused; in Complete, every refusing rule.
	Refusals []int

	Limit     int64
	Remaining int64
	Reset     int64 // ms until the reporter's counter is as new
	Retry     int64 // ms until the weight would fit; Never if it cannot fit or nothing was refused
	// Daily reports that the numbers describe the free hits of a Base rule's
	// day, not its second window.
	Daily bool
	// Banned reports that the reporter's subject is banned: Retry and Reset are the
	// time until the ban ends.
	Banned bool
	// Early reports that the decider refuses only because of parts of its limit that
	// instances hold and may not have spent, see Lease.
	Early bool
	// Hits is the number of hits counted now, for a Base rule the day's. Peek has it, and
	// so has an answer that a rule with an overdraft decides: its hits may be above its
	// limit.
	Hits int64
	// Leased is the number of hits that other instances hold and may not have spent, see
	// Lease; Peek only.
	Leased int64
}

// Reset prepares a for n sets and keeps its memory.
func (a *Answers) Reset(n int) {
	if cap(a.Sets) < n {
		a.Sets = append(a.Sets[:cap(a.Sets)], make([]Answer, n-cap(a.Sets))...)
	}
	a.Sets = a.Sets[:n]
	for i := range a.Sets {
		a.Sets[i].Clear()
	}
	a.Degraded, a.Now, a.Wait, a.Receipt, a.Undo, a.Took = false, 0, 0, "", nil, 0
}

// Clear empties a and keeps its memory.
func (a *Answer) Clear() {
	*a = Answer{Decider: -1, Reporter: -1, Retry: Never, Refusals: a.Refusals[:0]}
}

// Allowed reports whether answers to a take of p, or to a browse of it, allow
// every set. A CompleteTake allows a set only if no rule decided.
func (p *Plan) Allowed(a *Answers) bool {
	for i := range p.Sets {
		set, decider := &p.Sets[i], a.Sets[i].Decider
		switch {
		case set.Refund:
		case decider < 0 && !set.Allows, decider >= 0 && (p.Op == CompleteTake || !set.Rules[decider].Allows):
			return false
		}
	}
	return true
}

// Store evaluates plans, gives takes back and settles receipts.
type Store interface {
	// Evaluate carries out the plan as one atomic step and fills a. An error
	// means that the plan was not decided; it may have been counted, but was
	// never admitted.
	Evaluate(ctx context.Context, p *Plan, a *Answers) error
	Canceler
	Settler
}

// Canceler gives back takes whose callers left while they waited for their turn, or
// before they got their receipt.
type Canceler interface {
	// Cancel gives back everything that a take of p counted, whose answers a are, ends
	// its holds and spends its receipt.
	// The store gives back at most what is still there of that take, and never
	// admits one hit too many. The call is not repeated; the hits of a lost one stay
	// until their windows end. Nothing is given back for answers without Undo.
	Cancel(ctx context.Context, p *Plan, a *Answers) error
}

// MaxNow is the largest clock value of a plan, in ms since the epoch: instants take six
// bytes in Redis.
const MaxNow = 1 << 46

// MaxRules is the largest number of rules of a plan, over all sets: a plan
// occupies Redis for about ten microseconds per rule, and its Lua cannot return more
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

// The largest thresholds. Rule files allow less; all stores compute exactly up
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

// faultOfWords describes what is invalid about Overdraft, Ban, Wait, Settle, Outcome, Lease
// and Marked.
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
	return r.faultOfLastWords()
}

// faultOfLastWords describes what is invalid about Lease and Marked.
func (r *Rule) faultOfLastWords() string {
	if r.Marked && (r.Shadow || r.Ban > 0 || r.Wait > 0 || r.Lease > 0) {
		return "a marked rule is a shadow rule, or has a ban, a wait or a lease"
	}
	if !within(r.Lease, 0, maxLease) || r.Lease > 0 && (!method.Of(r.Method).Leases || r.Settle > 0 || r.Wait > 0) {
		return "lease is out of range, or not on a plain count or token rule"
	}
	return ""
}
