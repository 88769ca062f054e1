package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/koalagate/koalagate/internal/config"
	"github.com/koalagate/koalagate/internal/metrics"
	"github.com/koalagate/koalagate/internal/store"
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
	full := complaints{logger: logger}
	memory := store.NewMemory(store.MemoryOptions{MaxIdentities: c.MaxIdentities, OnFull: func() {
		full.tell("The in-process store is full; identities beyond share counters and may be refused for each other: raise max_identities if these are no attack", "max_identities", c.MaxIdentities)
	}})
	m.WatchMemory(memory.Identities, memory.Shared)
	if c.Redis == "" {
		stopClocks := watchClocks(nil, logger)
		return &counters{store: memory, metrics: m, close: func() { stopClocks(); memory.Close() }}, nil
	}
	unanswered, damaged := complaints{logger: logger}, complaints{logger: logger}
	o := redisOptions(c)
	o.OnDamage = func(key string) {
		m.Damaged()
		damaged.tell("A key in Redis held no counters of ours; counting afresh there", "key", key)
	}
	redis, err := store.NewRedis(o)
	if err != nil {
		return nil, err
	}
	store.LogClient(func(message string) { logger.Debug("the Redis client says", "message", message) })
	tellRescue := func(err error) {
		unanswered.tell("Redis did not answer a call; decided it in process", "error", err, "remedy", store.Remedy(err))
	}
	m.WatchRedis(func() metrics.RedisCalls {
		n := redis.Calls()
		return metrics.RedisCalls{Decisions: n.Plans, Scripts: n.Scripts, Remembered: n.Remembered, Stranded: n.Stranded}
	})
	rescue := store.NewRescue(redis, memory, store.RescueOptions{Share: c.RescueShare, OnRescue: tellRescue, OnChange: func(s store.State) {
		m.Degraded(s.Degraded)
		if s.Degraded {
			logger.Warn("Redis is away; deciding in process until it is back", "redis", c.Redis.String(), "error", s.Err, "remedy", store.Remedy(s.Err))
		} else {
			logger.Info("Redis is back; counting there again", "redis", c.Redis.String())
		}
	}})
	stopInspecting, stopClocks := inspectRedis(redis, logger), watchClocks(redis, logger)
	s := &counters{store: rescue, metrics: m, rescue: rescue, close: func() {
		stopInspecting()
		stopClocks()
		rescue.Close()
		if err := redis.Close(); err != nil {
			logger.Debug("closing Redis", "error", err)
		}
		memory.Close()
	}}
	if err := store.Misplaced(rescue.State().Err); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
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

// fault says what Redis is away with, "" while it answers.
func (c *counters) fault() string {
	if c.rescue == nil {
		return ""
	}
	s := c.rescue.State()
	if !s.Degraded || s.Err == nil {
		return ""
	}
	if remedy := store.Remedy(s.Err); remedy != "" {
		return fmt.Sprintf("%v: %s", s.Err, remedy)
	}
	return s.Err.Error()
}

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
