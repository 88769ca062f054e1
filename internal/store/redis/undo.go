package redis

import "github.com/koalagate/koalagate/internal/store"

// Undo is an undo record: the hits that a take counted on one rule. A take that wants
// undo records returns one per rule, and a call with them gives back exactly
// these hits: only if the counter is still the one that was counted
// on, and never more than would be there without the take. A give-back that is
// late or lost therefore leaves hits until their window ends, and never admits
// one hit too many.
//
//	method  a                           b                    c
//	count   end of the window                            its last reset, if it ends with
//	                                                     a unit
//	base    end of the day              hits in the second   its end
//	                                    window
//	leak    instant of the run
//	token   instant of the bucket's use  missing before       its last reset, if a
//	                                                          receipt may concern it
//	hold    when the run runs out
//
// Tokens that were refilled since the take are not given back: without the take
// the bucket might have been full, and the refill lost. The level at the take
// cannot tell, because other calls may have given back meanwhile. A take that waits
// gives back more, see lua/token.lua.
type Undo struct {
	flags   int64
	a, b, c int64
}

const (
	// giveBack is the operation that gives back by undo records.
	giveBack store.Op = 9
	// The operations on receipts.
	settleReceipt store.Op = 10
	renewReceipt  store.Op = 11
	readReceipt   store.Op = 12
	// leasePart asks for a part of a limit.
	leasePart store.Op = 13
	// assignShares assigns shares of limits.
	assignShares store.Op = 14
	// mayWait, added to an operation, sends the caller's patience, and requests the
	// wait behind the answers.
	mayWait = 32
	// hasReceipt, added to an operation, sends the key of a receipt.
	hasReceipt = 64
	// undoStays is the flag of an overdraft, which stays if another slot refuses.
	undoStays = 8
	// leavesNothing, added to wantsUndo, makes a refused take write nothing: neither
	// overdrafts nor bans.
	leavesNothing = 128
	// wantsUndo, added to a take's operation, requests undo records, and the
	// answers of a browse before the answers of the take.
	wantsUndo = 16
	// undoSize is the size of an undo record in a reply: the flags, which
	// lua/plan.lua describes, and the numbers.
	undoSize = 1 + 6 + 7 + 6
)

// pack appends the record's numbers.
func (u *Undo) pack(n *numbers) {
	n.add(u.flags)
	n.add(u.a)
	n.add(u.b)
	n.add(u.c)
}

// undos reads the records of n rules; nil if nothing was counted.
func (r *reader) undos(n int) []Undo {
	if r.uint(1) == 0 || r.bad {
		return nil
	}
	list := make([]Undo, n)
	for i := range list {
		list[i] = Undo{int64(r.uint(1)), int64(r.uint(6)), int64(r.uint(7)), int64(r.uint(6))}
	}
	return list
}

// skipUndos skips the records of n rules.
func (r *reader) skipUndos(n int) {
	if r.uint(1) == 1 {
		r.skip(n * undoSize)
	}
}

// ReadTake fills before and after with the answers to the call's sets as they
// were before the take counted and after it, and returns an undo record per
// rule; nil if it counted nothing. It sets the receipt of after if the take made one.
func (c *Call) ReadTake(before, after *store.Answers) ([]Undo, error) {
	r := reader{rest: c.answer.sets}
	for _, answers := range []*store.Answers{before, after} {
		answers.Reset(len(c.plan.Sets))
		for i := range c.plan.Sets {
			r.answer(&answers.Sets[i], c.plan.Sets[i].Rules)
		}
	}
	if c.waits {
		r.wait(after)
	}
	list := r.undos(len(c.keys))
	if c.kept && r.uint(1) == 1 {
		after.Receipt = c.receipt
	}
	after.Now = c.answer.now
	return list, r.err()
}

// Stays reports whether the record belongs to an overdraft, which stays if another
// slot refuses.
func (u *Undo) Stays() bool { return u.flags&undoStays != 0 }
