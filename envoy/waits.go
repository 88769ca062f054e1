package envoy

import (
	"context"
	"sync/atomic"
)

// Waits counts the calls of a connection that wait for their turns at the same time:
// at most half of the calls that it may have open, so that waiting calls do not block
// others.
type Waits struct {
	most    int64
	waiting atomic.Int64
}

// Enter admits one more call, which Leave ends, or returns false.
func (w *Waits) Enter() bool {
	if w.waiting.Add(1) > w.most {
		w.waiting.Add(-1)
		return false
	}
	return true
}

// Leave ends the wait of a call.
func (w *Waits) Leave() { w.waiting.Add(-1) }

// WaitsOf returns the counter of the connection of a call; nil if the call does not
// belong to a front.
func WaitsOf(ctx context.Context) *Waits {
	conn := connOf(ctx)
	if conn == nil {
		return nil
	}
	return &conn.waits
}
