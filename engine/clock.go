package engine

import (
	"sync/atomic"
	"time"
)

// WithClock sets the clock of an engine, by which rules with since or until begin and end
// until the counters report their time; nil means time.Now.
func WithClock(now func() time.Time) Option {
	return setting(func(s *settings) { s.clock.read = now })
}

// clock is the clock of the counters: the time of their last answer, advanced by the
// monotonic clock of this process. Before the first answer it is the clock of
// this process. So the instances that share a Redis switch rules at the same time, even
// if their own clocks differ or are set.
type clock struct {
	read  func() time.Time // nil for time.Now
	begin time.Time
	told  atomic.Bool
	ahead atomic.Int64 // ms since the epoch at begin, by the clock of the counters
}

// start must be called before the others.
func (c *clock) start() {
	if c.read == nil {
		c.read = time.Now
	}
	c.begin = c.read()
}

// now returns the time in ms since the epoch.
func (c *clock) now() int64 {
	t := c.read()
	if !c.told.Load() {
		return t.UnixMilli()
	}
	return c.ahead.Load() + t.Sub(c.begin).Milliseconds()
}

// tell records the time of an answer of the counters, in ms since the epoch.
func (c *clock) tell(now int64) {
	c.ahead.Store(now - c.read().Sub(c.begin).Milliseconds())
	c.told.Store(true)
}
