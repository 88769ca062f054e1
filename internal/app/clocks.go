package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/koalagate/koalagate/internal/delay"
	"github.com/koalagate/koalagate/internal/store/redisconn"
	"github.com/koalagate/koalagate/internal/store/remote"
)

const (
	// clockInterval is the time between two readings of the clocks. Drift in
	// that time is far below jumpMinimum.
	clockInterval = 10 * time.Second
	// jumpMinimum is the smallest difference that counts as a jump.
	jumpMinimum = time.Second
	// clockPrecision is the largest error of a reading that is used: a slow
	// answer is too imprecise.
	clockPrecision = jumpMinimum / 2
)

// clockWatch detects jumps of the clocks of this machine and of Redis, which
// counters depend on. The monotonic clock, which never jumps, measures the time
// between two readings.
type clockWatch struct {
	logger *slog.Logger
	begin  time.Time
	bases  map[string]time.Duration // by clock: its time at begin, calculated from its last reading
	// evictions are read with the clocks.
	evictions evictionWatch
}

// machineClock is the name of this machine's clock in logs.
const machineClock = "this machine"

// newClockWatch returns a clockWatch that calls evicted with the number of keys that
// Redis evicts. evicted may be nil.
func newClockWatch(logger *slog.Logger, begin time.Time, evicted func(int64)) *clockWatch {
	return &clockWatch{
		logger: logger, begin: begin, bases: make(map[string]time.Duration),
		evictions: evictionWatch{logger: logger, evicted: evicted, before: make(map[string]int64)},
	}
}

// record notes that the clock of this name showed the given time, elapsed after
// begin, and logs a jump since its last reading.
func (w *clockWatch) record(name string, shows time.Time, elapsed time.Duration) {
	base := time.Duration(shows.UnixNano()) - elapsed
	before, known := w.bases[name]
	w.bases[name] = base
	jump := base - before
	if !known || jump.Abs() < jumpMinimum {
		return
	}
	effect := "windows that it passed are closed, and clients that were refused in them are no longer"
	if jump < 0 {
		effect = "open windows stay open for as much longer, and clients that are refused in them stay so"
	}
	w.logger.Warn("a clock that counters depend on has jumped", "clock", name, "by", jump.Round(time.Millisecond).String(), "effect", effect,
		"remedy", "configure NTP to slew, not to step; after a failover, synchronize the clocks of both servers")
}

// run reads all clocks until ctx is done. redis is nil without Redis.
func (w *clockWatch) run(ctx context.Context, redis remote.Store) {
	delay.Every(ctx, clockInterval, nil, func() {
		now := time.Now()
		w.record(machineClock, now, now.Sub(w.begin))
		if redis != nil {
			w.readRedis(ctx, redis)
		}
	})
}

// readRedis reads the clocks of Redis.
func (w *clockWatch) readRedis(ctx context.Context, redis remote.Store) {
	all, err := redis.Clocks(ctx)
	if ctx.Err() == nil {
		w.recordAll(all, err)
	}
}

// recordAll records the clocks that were read. If only some were, it logs the error
// of the others. If none was, Redis is unreachable, which is logged elsewhere.
func (w *clockWatch) recordAll(all []redisconn.Clock, err error) {
	if err != nil && len(all) > 0 {
		w.logger.Warn("some clocks of Redis could not be read; their jumps are not detected", "error", err, "remedy", redisconn.Remedy(err))
	}
	for _, one := range all {
		w.evictions.record(one)
		if one.Within <= clockPrecision {
			w.record(clockName(one), one.Shows, one.At.Sub(w.begin))
		}
	}
}

func clockName(c redisconn.Clock) string {
	if c.Server == "" {
		return "Redis"
	}
	return "Redis at " + c.Server
}
