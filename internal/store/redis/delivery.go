package redis

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// The states of a call on its way.
const (
	callWaits     = iota // may still be withdrawn
	callIsSent           // may have been counted
	callWithdrawn        // its caller left before it was sent: it will not be sent
)

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

// finish ends the call for its caller.
func (d *delivery) finish(err error) {
	d.err = err
	d.done <- struct{}{}
}

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
