package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Clock is what a clock of Redis showed.
type Clock struct {
	Server string    // the node of a Cluster; "" for a Redis that has none
	Shows  time.Time // what it showed
	// At is when it was asked, by this machine: the clock was read At or up to
	// Within later.
	At     time.Time
	Within time.Duration
}

// Clocks reads the clock of Redis, by which it counts, or those of the masters
// of a Cluster that are not away. Each has the budget of a call. An error names
// those that did not answer; what the others showed is told beside it.
func (r *Redis) Clocks(ctx context.Context) ([]Clock, error) {
	if r.nodes == nil {
		c, err := r.clock(ctx, "", r.client)
		if err != nil {
			return nil, err
		}
		return []Clock{c}, nil
	}
	if r.nodes.owning.Load() == nil {
		return nil, errors.New("redis: reading the clocks: the nodes of the Cluster are not known")
	}
	var all []Clock
	err := r.nodes.eachOwning(func(n *node) error {
		if n.away.Load() {
			return nil
		}
		c, err := r.clock(ctx, n.addr, n.client)
		if err == nil {
			all = append(all, c)
		}
		return err
	})
	return all, err
}

func (r *Redis) clock(ctx context.Context, server string, client redis.UniversalClient) (Clock, error) {
	ctx, cancel := context.WithTimeout(ctx, r.budget)
	defer cancel()
	c := Clock{Server: server, At: time.Now()}
	shows, err := client.Time(ctx).Result()
	if err != nil {
		return c, fmt.Errorf("redis: reading its clock: %w", err)
	}
	c.Shows, c.Within = shows, time.Since(c.At)
	return c, nil
}
