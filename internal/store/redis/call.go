package redis

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// Call is one plan on its way to the script and back; lua/plan.lua describes
// its encoding. Its caller packs it, and a bundle carries it together with
// others.
//
// The call copies what a bundle needs of the plan, because a caller that times
// out may reuse its plan while the bundle still refers to the call.
type Call struct {
	// Slot is the slot of the call's keys in a Redis Cluster, 0 on a single server.
	// Calls of different slots never share a script call.
	Slot uint16
	// Asking sends ASKING before the call, for a node that is importing the slot.
	Asking bool

	plan  *store.Plan // for the caller only
	now   int64
	zone  *time.Location
	sets  int
	shape numbers // the plan without its keys
	names []name  // the keys: one per subject, and one per log of a leak rule
	keys  []keys  // one per rule, set by set
	texts []byte  // the texts of the names, concatenated
	// periods are the calendar units of the rules, each once.
	periods   []store.Period
	answer    outcome
	lookup    cacheLookup
	begin     string      // of the keys
	op        store.Op    // the plan's, or giveBack
	undo      []Undo      // one per rule, set by set; only of giveBack
	wants     bool        // undo records, and the answers of a browse
	bare      bool        // the logs are not named
	tentative bool        // refused, it leaves nothing; only of takes with wants
	logs      bool        // a rule is a leak rule
	waits     bool        // a rule may wait, and the operation decides
	lasts     bool        // a refused take may write: a rule has an overdraft or a ban
	patience  int64       // of the caller, in ms
	settles   bool        // a rule may have a part in a receipt
	frees     bool        // a settlement may make a rule admit more
	lease     store.Lease // only of leasePart
	usage     usage       // only of assignShares
	receipting

	start, end time.Time // of the time that the caller has
	time       allowance // not used by the parts of a split plan
	delivery
}

// keys are the indices of a rule's keys among the names of its call.
type keys struct {
	subject int
	log     int // 0 except for leak, whose log is never the first; -1 if it is not named
}

// name is a key of Redis in a call.
type name struct {
	text   []byte
	end    int // of the text in the texts of the call
	hash   uint64
	log    bool
	number int // among the KEYS of the script call, from 1
}

// MarshalBinary returns the key for the client library, which would copy a
// string.
func (n *name) MarshalBinary() ([]byte, error) { return n.text, nil }

// String returns the key, for a client library that computes its slot.
func (n *name) String() string { return string(n.text) }

// receipting is the part of a call that concerns a receipt.
type receipting struct {
	kept        bool   // the call makes, reads or spends a receipt
	tag         string // of the receipt's key
	receipt     string
	key         int // of the receipt, among the names
	description text
	uses        []use // of an operation on a receipt, one per rule
	literal     bool  // the subjects are texts of names
}

// text is an argument for the client library, which would copy a string.
type text []byte

// MarshalBinary returns the text for the client library.
func (t *text) MarshalBinary() ([]byte, error) { return *t, nil }

// clear prepares r for another call and keeps its memory.
func (r *receipting) clear(tag string) {
	*r = receipting{tag: tag, description: r.description[:0], uses: r.uses[:0]}
}

// delivery is the part of a call that belongs to its way through a batch.
type delivery struct {
	// Trip is the number of the batch that carried the call, or of the last
	// batch before it if it was not sent.
	Trip uint64

	state atomic.Int32
	until time.Time     // end of its caller's time; zero for no end
	left  departure     // of the batch that carried it
	done  chan struct{} // has a buffer of one: a batch never waits for a caller
	err   error
}

// The states of a call on its way.
const (
	callWaits     = iota // may still be withdrawn
	callIsSent           // may have been counted
	callWithdrawn        // its caller left before it was sent: it will not be sent
)

// finish ends the call for its caller.
func (d *delivery) finish(err error) {
	d.err = err
	d.done <- struct{}{}
}

// WantUndo makes a take return undo records.
func (c *Call) WantUndo() {
	c.wants = true
	c.fill()
}

// WantUndoOrNothing makes a take return undo records and, if it is refused, leave nothing:
// neither overdrafts nor bans.
func (c *Call) WantUndoOrNothing() {
	c.wants, c.tentative = true, true
	c.fill()
}

// WantsUndo reports whether the call returns undo records.
func (c *Call) WantsUndo() bool { return c.wants }

// GiveBack turns a take into a call that gives back by its undo records, one
// per rule. If the take made a receipt, under a tag, the call spends it, and gives nothing
// back if that is spent.
func (c *Call) GiveBack(list []Undo, tag, receipt string) {
	c.op, c.undo, c.tag, c.receipt = giveBack, list, tag, receipt
	c.fill()
}

// OmitLogs packs c again without naming the logs of leak counters, and reports
// whether there were any. The script answers an error for which NeedsLog is true
// if a counter has a log.
func (c *Call) OmitLogs() bool {
	if c.bare || !c.logs {
		return false
	}
	c.bare = true
	c.fill()
	return true
}

// NameLogs packs c again with the logs of leak counters, and reports whether
// they were omitted.
func (c *Call) NameLogs() bool {
	if !c.bare {
		return false
	}
	c.bare = false
	c.fill()
	return true
}

// MakeReceipt makes a take keep its receipt in the slot of a tag. Parts of a take have
// one receipt.
func (c *Call) MakeReceipt(tag, receipt string) {
	c.tag, c.receipt = tag, receipt
	c.fill()
}

// MakesReceipt reports whether the call is a take on rules that may have a part in a
// receipt.
func (c *Call) MakesReceipt() bool { return c.settles && c.takes() }

var _ store.Late = (*Call)(nil)

// Result implements store.Late for a call whose caller has left. A reply that is an
// error means that nothing was counted.
func (c *Call) Result(p *store.Plan, a *store.Answers) (ended bool, err error) {
	select {
	case <-c.done:
	default:
		return false, nil
	}
	switch {
	case c.err != nil && isReply(c.err):
		return true, fmt.Errorf("%w: %w", redisconn.ErrUnsent, c.err)
	case c.err != nil:
		return true, c.err
	}
	a.Reset(len(p.Sets))
	return true, c.Read(p, a)
}

// allowance is a context with the deadline of a call. Unlike the context of
// context.WithDeadline it is reused by the next call, which saves five
// allocations per call and the registration with the caller's context. It does
// not end when the caller's context does: a wait must select on Departed too.
type allowance struct {
	context.Context // the caller's, for its values
	end             time.Time
	timer           *time.Timer
	over            chan struct{} // closed at the end; one channel as long as a is reused
}

var _ context.Context = (*allowance)(nil)

// begin starts the time from now until end for the caller of ctx.
func (a *allowance) begin(ctx context.Context, now, end time.Time) {
	a.Context, a.end = ctx, end
	if a.timer != nil {
		a.timer.Reset(end.Sub(now))
		return
	}
	over := make(chan struct{})
	a.over, a.timer = over, time.AfterFunc(end.Sub(now), func() { close(over) })
}

// finish stops a, and reports whether it may begin again. After its deadline it
// may not: a batch may still read it.
func (a *allowance) finish() bool {
	inTime := a.timer.Stop()
	if inTime {
		a.Context = context.Background()
	}
	return inTime
}

// Deadline returns the end.
func (a *allowance) Deadline() (time.Time, bool) { return a.end, true }

// Done returns a channel that is closed at the end.
func (a *allowance) Done() <-chan struct{} { return a.over }

// Err returns why the time ended, or nil.
func (a *allowance) Err() error {
	select {
	case <-a.over:
		return context.DeadlineExceeded
	default:
		return a.Context.Err()
	}
}

// Departed returns a channel that is closed when the caller of ctx no longer
// waits. It is nil unless ctx belongs to a call; other contexts end by themselves.
func Departed(ctx context.Context) <-chan struct{} {
	if a, ok := ctx.(*allowance); ok {
		return a.Context.Done()
	}
	return nil
}
