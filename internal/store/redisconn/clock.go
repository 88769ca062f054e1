package redisconn

import (
	"context"
	"fmt"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// Clock is a reading of a clock of Redis, and of its evictions.
type Clock struct {
	Server string    // address of the node of a Cluster; "" for a single server
	Shows  time.Time // the time that Redis returned
	// At is when the reading began, by this machine's clock: Redis read its
	// clock between At and Within later.
	At     time.Time
	Within time.Duration
	// Evicted is the number of keys that the server evicted since it started, or -1
	// if the user may not read it.
	Evicted int64
}

// ReadClock reads the clock and the evictions of the client's server within a timeout.
func ReadClock(ctx context.Context, client goredis.UniversalClient, server string, timeout time.Duration) (Clock, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c := Clock{Server: server, At: time.Now()}
	shows, err := client.Time(ctx).Result()
	if err != nil {
		return c, fmt.Errorf("redis: read its clock: %w", err)
	}
	c.Shows, c.Within = shows, time.Since(c.At)
	c.Evicted = readEvicted(ctx, client)
	return c, nil
}

// readEvicted returns the number of keys that the server evicted, or -1.
func readEvicted(ctx context.Context, client goredis.UniversalClient) int64 {
	text, err := client.Info(ctx, "stats").Result()
	if err != nil {
		return -1
	}
	n, err := strconv.ParseInt(ParseInfo(text)["evicted_keys"], 10, 64)
	if err != nil {
		return -1
	}
	return n
}
