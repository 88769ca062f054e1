package store

import "time"

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
