package main

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/koalagate/koalagate/config"
	"github.com/koalagate/koalagate/metrics"
	"github.com/koalagate/koalagate/store"
)

// counters are the store in use, timed, and what is to be known of it.
type counters struct {
	store   store.Store
	metrics *metrics.Metrics
	rescue  *store.Rescue // nil where no Redis is configured
	close   func()
}

// openCounters opens the store that is configured: Redis, which the
// in-process store stands in for, or the in-process store alone.
func openCounters(c *config.Config, m *metrics.Metrics, logger *slog.Logger) (*counters, error) {
	memory := store.NewMemory(store.MemoryOptions{})
	if c.Redis == "" {
		return &counters{store: memory, metrics: m, close: memory.Close}, nil
	}
	redis, err := store.NewRedis(store.RedisOptions{URL: c.Redis.Reveal(), Prefix: c.RedisPrefix, Budget: c.RedisBudget})
	if err != nil {
		return nil, err
	}
	store.LogClient(func(message string) { logger.Debug("the Redis client says", "message", message) })
	complain := complaints{logger: logger}
	rescue := store.NewRescue(redis, memory, store.RescueOptions{OnRescue: complain.rescued, OnChange: func(s store.State) {
		m.Degraded(s.Degraded)
		if s.Degraded {
			logger.Warn("Redis is away; deciding in process until it is back", "redis", c.Redis.String(), "error", s.Err)
		} else {
			logger.Info("Redis is back; counting there again", "redis", c.Redis.String())
		}
	}})
	return &counters{store: rescue, metrics: m, rescue: rescue, close: func() {
		rescue.Close()
		if err := redis.Close(); err != nil {
			logger.Debug("closing Redis", "error", err)
		}
		memory.Close()
	}}, nil
}

// complaints are the log lines about calls that Redis failed to answer: one
// every so often, since there may be as many as there are calls.
type complaints struct {
	logger *slog.Logger
	last   atomic.Int64 // when the last was logged, ns since the epoch
	silent atomic.Int64 // those since then
}

// complainEvery is how often a failed call is logged.
const complainEvery = 10 * time.Second

// rescued logs that a call was decided in process while Redis is in use.
func (c *complaints) rescued(err error) {
	now, last := time.Now().UnixNano(), c.last.Load()
	if now-last < int64(complainEvery) || !c.last.CompareAndSwap(last, now) {
		c.silent.Add(1)
		return
	}
	c.logger.Warn("Redis did not answer a call; decided it in process", "error", err, "since_last_line", c.silent.Swap(0))
}

// Evaluate has the store carry out a plan, and notes how long it took.
func (c *counters) Evaluate(ctx context.Context, p *store.Plan, a *store.Answers) error {
	start := time.Now()
	err := c.store.Evaluate(ctx, p, a)
	c.metrics.Evaluated(time.Since(start))
	return err
}

// degraded tells whether the in-process store stands in for Redis.
func (c *counters) degraded() bool { return c.rescue != nil && c.rescue.State().Degraded }

// kind is the word for the store on pages and in logs.
func (c *counters) kind() string {
	switch {
	case c.rescue == nil:
		return "memory"
	case c.degraded():
		return "degraded"
	}
	return "redis"
}
