package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/koalagate/koalagate/internal/store"
)

const (
	// clocksEvery is how often the clocks are looked at. What they drift apart
	// in that time is far below jumpFrom.
	clocksEvery = 10 * time.Second
	// jumpFrom is by how much a clock has to be off for a jump.
	jumpFrom = time.Second
	// exactWithin is how exact a look has to be: a slow answer says too little.
	exactWithin = jumpFrom / 2
)

// clocks notice when the clock of the machine, or of Redis, jumps: counters go
// by them. Time that passes is told by the monotonic clock, which never does.
type clocks struct {
	logger *slog.Logger
	begin  time.Time
	bases  map[string]time.Duration // what each showed at begin, as if it had never jumped since the last look
}

// machine is the name of this machine's own clock among those of Redis.
const machine = "this machine"

func newClocks(logger *slog.Logger, begin time.Time) *clocks {
	return &clocks{logger: logger, begin: begin, bases: make(map[string]time.Duration)}
}

// look notes what the clock of a name showed when so much time had passed since
// begin, and logs a jump since the last look.
func (c *clocks) look(name string, shows time.Time, passed time.Duration) {
	base := time.Duration(shows.UnixNano()) - passed
	before, known := c.bases[name]
	c.bases[name] = base
	jump := base - before
	if !known || jump.Abs() < jumpFrom {
		return
	}
	effect := "windows that it passed over are closed: who was refused in them is not any more"
	if jump < 0 {
		effect = "windows that are open stay so for as much longer: who is refused in them stays so"
	}
	c.logger.Warn("A clock that counters go by has jumped", "clock", name, "by", jump.Round(time.Millisecond).String(), "effect", effect,
		"remedy", "have its NTP slew and not step; after a failover, set the clocks of both servers")
}

// run looks at all of the clocks until ctx ends. Redis is nil where there is
// none.
func (c *clocks) run(ctx context.Context, redis *store.Redis) {
	tick := time.NewTicker(clocksEvery)
	defer tick.Stop()
	for {
		now := time.Now()
		c.look(machine, now, now.Sub(c.begin))
		if redis != nil {
			c.lookAtRedis(ctx, redis)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// lookAtRedis looks at the clocks of Redis.
func (c *clocks) lookAtRedis(ctx context.Context, redis *store.Redis) {
	all, err := redis.Clocks(ctx)
	if ctx.Err() == nil {
		c.lookAtAll(all, err)
	}
}

// lookAtAll looks at the clocks that were read. Where only some were, it names
// the others; where none was, Redis is away, and the log tells of that already.
func (c *clocks) lookAtAll(all []store.Clock, err error) {
	if err != nil && len(all) > 0 {
		c.logger.Warn("Not every clock of Redis was read; whether the others jump is not seen", "error", err, "remedy", store.Remedy(err))
	}
	for _, one := range all {
		if one.Within <= exactWithin {
			c.look(nameOf(one), one.Shows, one.At.Sub(c.begin))
		}
	}
}

func nameOf(c store.Clock) string {
	if c.Server == "" {
		return "Redis"
	}
	return "Redis at " + c.Server
}

// watchClocks has the clocks looked at until stop is called.
func watchClocks(redis *store.Redis, logger *slog.Logger) (stop func()) {
	return beside(func(ctx context.Context) { newClocks(logger, time.Now()).run(ctx, redis) })
}
