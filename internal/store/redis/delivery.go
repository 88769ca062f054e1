package redis

import (
	"sync/atomic"
	"time"
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
