package store

import (
	"context"
	"time"
)

// allowance is the time that a call has: what context.WithDeadline makes, but
// kept for the next call, which saves each of them five allocations and the way
// into the caller's context. It does not end with its caller: who waits for long
// looks at departed as well.
type allowance struct {
	context.Context // the caller's, for its values
	end             time.Time
	timer           *time.Timer
	over            chan struct{} // closed at the end; the same as long as a is used
}

var _ context.Context = (*allowance)(nil)

// begin gives the caller of ctx the time from now until end.
func (a *allowance) begin(ctx context.Context, now, end time.Time) {
	a.Context, a.end = ctx, end
	if a.timer != nil {
		a.timer.Reset(end.Sub(now))
		return
	}
	over := make(chan struct{})
	a.over, a.timer = over, time.AfterFunc(end.Sub(now), func() { close(over) })
}

// finish ends a before its time, and tells whether it may begin again. A
// deadline that has passed stays passed: somebody may still be told of it.
func (a *allowance) finish() bool {
	inTime := a.timer.Stop()
	if inTime {
		a.Context = context.Background()
	}
	return inTime
}

// Deadline is the end.
func (a *allowance) Deadline() (time.Time, bool) { return a.end, true }

// Done is closed at the end.
func (a *allowance) Done() <-chan struct{} { return a.over }

// Err is why there is no time left.
func (a *allowance) Err() error {
	select {
	case <-a.over:
		return context.DeadlineExceeded
	default:
		return a.Context.Err()
	}
}

// departed is closed when the caller of ctx does not wait any longer.
func departed(ctx context.Context) <-chan struct{} {
	if a, ok := ctx.(*allowance); ok {
		return a.Context.Done()
	}
	return nil
}
