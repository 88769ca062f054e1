package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/koalagate/koalagate/internal/loglimit"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/lease"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/redisconn"
	"github.com/koalagate/koalagate/internal/store/remote"
	"github.com/koalagate/koalagate/internal/store/rescue"
)

// counters is the store of an app, timed.
type counters struct {
	store.Store // in process, or with Redis in front of it
	memory      *memory.Store
	redis       remote.Store  // nil without Redis
	rescue      *rescue.Store // nil without Redis
	leases      *lease.Store  // answers plans with leases; nil without Redis
	evaluated   func(time.Duration)
	options     *Options
	closers     []func() error // in this order
}

// openCounters opens a store in Redis that the in-process store replaces while Redis
// is unavailable, or only an in-process store.
func openCounters(o *Options) (*counters, error) {
	c := &counters{evaluated: o.Hooks.Evaluated, options: o}
	full, excess := &loglimit.Warner{Logger: o.Logger}, &loglimit.Warner{Logger: o.Logger}
	c.memory = memory.New(memory.Options{MaxIdentities: o.MaxIdentities, MaxReceipts: o.MaxReceipts, OnFull: func() {
		full.Warn("the in-process store is full; additional identities share counters, and one may be refused because of another; raise max_identities unless this is an attack", "max_identities", o.MaxIdentities)
	}, OnExcess: func() {
		excess.Warn("max_receipts receipts are open in process: hold rules refuse every request, and estimates stand; find out why requests are not settled, or raise max_receipts", "max_receipts", cmp.Or(o.MaxReceipts, memory.DefaultMaxReceipts))
	}})
	c.Store = c.memory
	if o.Redis != nil {
		if err := c.openRedis(o); err != nil {
			return nil, err
		}
	}
	if o.Supervise {
		c.onClose(background(func(ctx context.Context) { newClockWatch(o.Logger, time.Now(), o.Hooks.Evicted).run(ctx, c.redis) }))
	}
	c.closers = append(c.closers, c.closeStores)
	return c, nil
}

// openRedis puts the store in Redis in front of the in-process store.
func (c *counters) openRedis(o *Options) error {
	redis, err := remote.Open(redisOptions(o))
	if err != nil {
		c.memory.Close()
		return err
	}
	c.redis = redis
	c.rescue = rescue.New(redis, c.memory, rescue.Options{
		Share: o.RescueShare, OnRescue: logRescue(o.Logger), OnChange: logChange(o),
		MaxSettlements: o.MaxSettlementsWaiting, OnDrop: o.Hooks.TooManySettlements, OnGiveUp: logGivenUp(o),
	})
	c.leases = lease.New(c.rescue, redis, lease.Options{Time: o.LeaseTime, Seed: c.memory.Seed})
	c.Store = c.rescue
	if err := redisconn.Misplaced(c.rescue.State().Err); err != nil {
		return errors.Join(err, c.closeStores())
	}
	if o.Supervise {
		c.onClose(background(func(ctx context.Context) { inspectRedis(ctx, redis, o.Logger) }))
	}
	return nil
}

// redisOptions returns the options of the store in Redis, with hooks that count and log
// damaged keys.
func redisOptions(o *Options) redis.Options {
	damaged := &loglimit.Warner{Logger: o.Logger}
	all := *o.Redis
	if o.Hooks.Lag != nil {
		all.OnLag = o.Hooks.Lag
	}
	if o.Hooks.RoundTrip != nil {
		all.OnRoundTrip = o.Hooks.RoundTrip
	}
	if o.Hooks.Script != nil {
		all.OnScript = o.Hooks.Script
	}
	all.OnDamage = func(key string) {
		if o.Hooks.Damaged != nil {
			o.Hooks.Damaged()
		}
		if o.Redis.OnDamage != nil {
			o.Redis.OnDamage(key)
		}
		damaged.Warn("a key in Redis contains no valid counters; its counters restart", "key", key)
	}
	return all
}

// logChange returns a function that logs when Redis becomes unreachable and when it
// is reachable again.
func logChange(o *Options) func(rescue.State) {
	var where []any
	if o.RedisName != "" {
		where = []any{"redis", o.RedisName}
	}
	logger := o.Logger.With(where...)
	return func(s rescue.State) {
		if o.Hooks.Degraded != nil {
			o.Hooks.Degraded(s.Degraded)
		}
		if s.Degraded {
			logger.Warn("Redis is unreachable; counting in process", "error", s.Err, "remedy", redisconn.Remedy(s.Err))
		} else {
			logger.Info("Redis is reachable again; counting there")
		}
	}
}

// logRescue returns a function that logs calls that Redis did not answer while it
// is considered reachable.
func logRescue(logger *slog.Logger) func(error) {
	unanswered, starved := &loglimit.Warner{Logger: logger}, &loglimit.Warner{Logger: logger}
	return func(err error) {
		if errors.Is(err, redisconn.ErrStarved) {
			starved.Warn("this instance is short of CPU; calls ran out of time although Redis answers", "error", err, "remedy", redisconn.Remedy(err))
			return
		}
		unanswered.Warn("Redis did not answer a call; decided it in process", "error", err, "remedy", redisconn.Remedy(err))
	}
}

// logGivenUp logs settlements that Redis refuses.
func logGivenUp(o *Options) func(error) {
	warner := &loglimit.Warner{Logger: o.Logger}
	return func(err error) {
		if o.Hooks.SettlementGivenUp != nil {
			o.Hooks.SettlementGivenUp()
		}
		warner.Warn("a settlement was given up, since it has failed for a minute although Redis answers; its estimates stand", "error", err)
	}
}

// background runs f in a goroutine until stop is called, which waits for its end.
func background(f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f(ctx)
	}()
	return func() { cancel(); <-ended }
}

func (c *counters) onClose(stop func()) {
	c.closers = append(c.closers, func() error { stop(); return nil })
}

func (c *counters) close() error {
	var faults []error
	for _, closer := range c.closers {
		faults = append(faults, closer())
	}
	return errors.Join(faults...)
}

func (c *counters) closeStores() error {
	var err error
	if c.redis != nil {
		c.leases.Close()
		c.rescue.Close()
		err = c.redis.Close()
	}
	c.memory.Close()
	return err
}

// Evaluate evaluates a plan, and reports how long that took.
func (c *counters) Evaluate(ctx context.Context, p *store.Plan, a *store.Answers) error {
	to := c.Store
	if c.leases != nil && p.Leases() {
		to = c.leases
	}
	if c.evaluated == nil {
		return to.Evaluate(ctx, p, a)
	}
	start := time.Now()
	err := to.Evaluate(ctx, p, a)
	a.Took = time.Since(start)
	c.evaluated(a.Took)
	return err
}

// Receipts returns the number of receipts that are kept in process, and the number of
// receipts that expired before they were settled.
func (a *App) Receipts() (open int, expired uint64) { return a.counters.memory.Receipts() }

// SettlementsWaiting returns the number of settlements that wait for Redis.
func (a *App) SettlementsWaiting() int {
	if a.counters.rescue == nil {
		return 0
	}
	return a.counters.rescue.Settlements()
}

// Degraded reports whether the counters are in process because Redis is
// unavailable.
func (a *App) Degraded() bool {
	return a.counters.rescue != nil && a.counters.rescue.State().Degraded
}

// StoreKind returns the word for the store on pages and in logs: memory, redis, or
// degraded if Redis is unavailable.
func (a *App) StoreKind() string {
	switch {
	case a.counters.rescue == nil:
		return "memory"
	case a.Degraded():
		return "degraded"
	}
	return "redis"
}

// StoreFault returns why Redis is unavailable and what to do, or "".
func (a *App) StoreFault() string {
	if a.counters.rescue == nil {
		return ""
	}
	s := a.counters.rescue.State()
	if !s.Degraded || s.Err == nil {
		return ""
	}
	if remedy := redisconn.Remedy(s.Err); remedy != "" {
		return fmt.Sprintf("%v: %s", s.Err, remedy)
	}
	return s.Err.Error()
}

// Identities returns the number of identities with their own counters in process.
func (a *App) Identities() int { return a.counters.memory.Identities() }

// Shared returns the number of hits counted on shared counters in process.
func (a *App) Shared() uint64 { return a.counters.memory.Shared() }

// Leases returns the totals of the parts of limits that this process held in advance. They
// are zero without Redis.
func (a *App) Leases() lease.Stats {
	if a.counters.leases == nil {
		return lease.Stats{}
	}
	return a.counters.leases.Stats()
}

// RedisLoad returns the current load of the store in Redis. It is zero without Redis.
func (a *App) RedisLoad() redis.Load {
	if a.counters.redis == nil {
		return redis.Load{}
	}
	return a.counters.redis.Load()
}

// RedisCalls returns the number of calls to Redis so far, and reports whether Redis
// is configured.
func (a *App) RedisCalls() (calls redis.Calls, ok bool) {
	if a.counters.redis == nil {
		return calls, false
	}
	return a.counters.redis.Calls(), true
}

// Assign assigns shares in the store that evaluates plans.
func (c *counters) Assign(ctx context.Context, u *store.Usage) (store.Assignment, error) {
	return c.Store.(store.Assigner).Assign(ctx, u)
}
