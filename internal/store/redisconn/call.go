package redisconn

import (
	"context"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// DefaultCallTimeout is the default of redis_call_timeout, which bounds one call of Redis about
// anything but counters: exceptions, modes, minutes and published rules. No decision waits for such a
// call, so it may take longer than a decision may; but an operator may wait for it.
const DefaultCallTimeout = 2 * time.Second

// CallTimeout returns the bound of such calls by a client: its Options.Timeout.
func CallTimeout(client goredis.UniversalClient) time.Duration {
	timeout := time.Duration(0)
	switch c := client.(type) {
	case *goredis.Client:
		timeout = c.Options().ReadTimeout
	case *goredis.ClusterClient:
		timeout = c.Options().ReadTimeout
	}
	if timeout <= 0 {
		return DefaultCallTimeout
	}
	return timeout
}

// Call returns the context of one such call. It ends after CallTimeout, or with ctx.
func Call(ctx context.Context, client goredis.UniversalClient) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, CallTimeout(client))
}
