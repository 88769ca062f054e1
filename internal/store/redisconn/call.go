package redisconn

import (
	"context"
	"time"
)

// CallTimeout bounds one call of Redis about anything but counters: exceptions, modes, minutes
// and published rules. No decision waits for such a call, so it may take longer than a decision
// may; but an operator may wait for it.
const CallTimeout = 2 * time.Second

// Call returns the context of one such call. It ends after CallTimeout, or with ctx.
func Call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, CallTimeout)
}
