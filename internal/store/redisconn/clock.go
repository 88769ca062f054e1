package redisconn

import (
	"context"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// Clock is a reading of a clock of Redis.
type Clock struct {
	Server string    // address of the node of a Cluster; "" for a single server
	Shows  time.Time // the time that Redis returned
	// At is when the reading began, by this machine's clock: Redis read its
	// clock between At and Within later.
	At     time.Time
	Within time.Duration
}

// ReadClock reads the clock of the client's server within a timeout.
func ReadClock(ctx context.Context, client goredis.UniversalClient, server string, timeout time.Duration) (Clock, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c := Clock{Server: server, At: time.Now()}
	shows, err := client.Time(ctx).Result()
	if err != nil {
		return c, fmt.Errorf("redis: read its clock: %w", err)
	}
	c.Shows, c.Within = shows, time.Since(c.At)
	return c, nil
}
