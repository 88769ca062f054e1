package redisconn

import (
	"context"
	"time"
)

// CallTimeout bounds one call of Redis for the records that instances share beside the
// counters. No decision waits for such a call: the time may be longer than a decision has, and
// is short enough for an operator who waits.
const CallTimeout = 2 * time.Second

// Call returns a context for one such call: it ends after CallTimeout, or with ctx.
func Call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, CallTimeout)
}
