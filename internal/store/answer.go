package store

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"time"

	"github.com/koalagate/koalagate/internal/method"
)

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
	// Refusals are indices of refusing rules: in a walk, the shadow rules that
	// were reached and would have refused; in Complete, every refusing rule.
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

// Attempt describes how a plan fared in the store that instances share. Package
// rescue uses it to decide when that store is unreachable.
type Attempt struct {
	Health Health
	// Trip identifies the round trip that failed the call: calls that failed in
	// one trip count as one failure. 0 means a trip of the call's own.
	Trip uint64
	// Unsent reports that the failed call was certainly not sent, and therefore
	// not counted.
	Unsent bool
	// Late is the failed call if it was sent and is still under way; else nil.
	Late Late
}

// Late is a call whose caller left before its answer.
type Late interface {
	// Result reports whether the call has ended. If it has an answer, Result fills a;
	// p must equal the plan of the call. An error that wraps redisconn.ErrUnsent means
	// that nothing was counted; after another one the call may have been counted.
	// After Result has reported the end, it must not be called again.
	Result(p *Plan, a *Answers) (ended bool, err error)
}

// Health is what one attempt shows about the shared store as a whole.
type Health uint8

// The findings of an attempt.
const (
	// Unknown shows nothing: the call was refused from memory, or failed at one
	// node of several.
	Unknown Health = iota
	// Starved shows nothing either: the call left the store too little time, or
	// its time passed in this process, which is short of CPU. The store may
	// have counted the call.
	Starved
	// Answered means that the store answered.
	Answered
	// Failed means that the store gave no usable answer. Several failures in a
	// row, or among few answers, mean that it is unreachable.
	Failed
	// Unreachable means that the store cannot be reached, or cannot count for
	// any caller.
	Unreachable
)

// Settler settles and renews receipts. A receipt that is unknown, malformed, spent or
// expired changes nothing and is no error.
type Settler interface {
	// Settle carries out a settlement as one atomic step, in a Cluster one per slot,
	// and spends the receipt. After an error it may have been carried out; it can be
	// repeated, because a receipt is spent once.
	Settle(ctx context.Context, s *Settlement) (Settled, error)
	// Renew makes the living holds of a receipt last for the Time of their rules from
	// now, and the receipt until the later of its former end and theirs. It shortens
	// nothing and revives nothing, and can be repeated.
	Renew(ctx context.Context, r *Renewal) (Settled, error)
}

// Settlement is how a request ended.
type Settlement struct {
	Receipt string
	Now     int64 // ms since the epoch; 0: the store's own clock
	// Zone is the zone of the calendar windows that the settlement opens; never nil. Other
	// thresholds are the take's.
	Zone *time.Location
	// Judge must be quick and must not call the store, which may hold locks, and may
	// ask several times for one rule.
	Judge Judge
}

// Renewal makes a receipt last.
type Renewal struct {
	Receipt string
	Now     int64 // ms since the epoch; 0: the store's own clock
}

// Settled is the result of a settlement or a renewal.
type Settled struct {
	// Known reports that the receipt was valid, and the operation carried out.
	Known bool
	// Age is the time since the take, in ms; 0 if the receipt was unknown.
	Age int64
	// Deferred reports that the store that keeps the receipt is unreachable, and that
	// the settlement will be carried out when it is reachable again.
	Deferred bool
}

// Judge reports what became of a rule's part of a request, by the rules in force.
type Judge interface {
	// Judge returns the use of the rule with this number and method.
	Judge(number int64, m Method) Use
}

// Keeper is a Judge that refers to its caller's memory. A store that judges after it has
// returned uses the copy.
type Keeper interface {
	Judge
	// Keep returns a judge with a copy of what it refers to.
	Keep() Judge
}

// JudgeFuncs is a Keeper made of functions.
type JudgeFuncs struct {
	Use  func(number int64, m Method) Use
	Kept func() func(number int64, m Method) Use // the same without the caller's memory
}

// Judge calls Use.
func (j JudgeFuncs) Judge(number int64, m Method) Use { return j.Use(number, m) }

// Keep returns a judge that calls the result of Kept.
func (j JudgeFuncs) Keep() Judge { return JudgeFuncs{Use: j.Kept(), Kept: j.Kept} }

// Use is what became of a rule's part of a request. The zero value passes over the part
// because its rule is gone or has another method: its estimate stands, its hold lasts
// until it runs out, and no outcome is charged.
type Use struct {
	Concerns bool  // the rule exists with this method
	Given    bool  // Hits replace the estimate; without them it stands
	Hits     int64 // that were used, 0 … MaxWeight
	Charge   bool  // the weight of an Outcome rule is recorded
}

// Part is what a rule takes part in a receipt with.
type Part uint8

// The parts.
const (
	NoPart   Part = iota
	Estimate      // a weight that a settlement replaces by what was used
	Held          // a weight that a settlement frees
	Charge        // a weight that a settlement records if the outcome calls for it
)

// Part returns the part that the rule has in the receipt of a take that admits its
// weight. A rule with Overdraft whose verdict allows although it refuses has one, too,
// if it records a weight of at least 1. A shadow rule that refuses, and rules below the
// decider, have none. Several sets of a take that have parts with one counter have one
// part, of the sum of their weights.
func (r *Rule) Part() Part {
	switch {
	case r.Outcome && r.Weight > 0:
		return Charge
	case method.Of(r.Method).Holds && r.Weight > 0:
		return Held
	case r.Settle > 0 && !r.Outcome:
		return Estimate
	}
	return NoPart
}

// Settles reports whether the rule may have a part in a receipt.
func (r *Rule) Settles() bool { return r.Settle > 0 || method.Of(r.Method).Holds }

// ReceiptSpan returns how long the rule keeps a receipt valid, in ms.
func (r *Rule) ReceiptSpan() int64 {
	if method.Of(r.Method).Holds {
		return r.Time * 1000
	}
	return r.Settle * 1000
}

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

// MaxReceipt is the largest length of a receipt, in bytes.
const MaxReceipt = 120

// The first byte of a receipt names the store that keeps it.
const (
	KeptInProcess = 'p'
	KeptInRedis   = 'r'
)

// NewReceipt returns a receipt of a store: its byte and 128 random bits. Stores may
// append what they need to find the receipt again.
func NewReceipt(keeper byte) string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	var text [23]byte
	text[0] = keeper
	base64.RawURLEncoding.Encode(text[1:], random[:])
	return string(text[:])
}

// KeptBy reports whether the text has the form of a receipt that keeper, KeptInProcess or
// KeptInRedis, has issued.
func KeptBy(keeper byte, text string) bool { return ValidReceipt(text) && text[0] == keeper }

// ValidReceipt reports whether a text has the form of a receipt. Texts that callers send
// are checked before a store is asked.
func ValidReceipt(text string) bool {
	if len(text) < 23 || len(text) > MaxReceipt || text[0] != KeptInProcess && text[0] != KeptInRedis {
		return false
	}
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}
