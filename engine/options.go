package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

// settings are the options of an engine whose types belong to this package.
type settings struct {
	clock    clock
	modes    *Modes
	policies Policies
	// maxWaiting is the argument of WithMaxWaiting; 0 is the default.
	maxWaiting int
	limitWaits func(context.Context) WaitLimit
	full       func()
	exceptions *Exceptions
	observe    func(*Call, *Decision, error)
	settled    func(*Settlement, Settled, error)
	renewed    func(*Settlement, Settled, error)
	matched    func(*Call, *rules.Set, []rules.Match, *Answer)
	reported   func(*Call, *rules.Set, []rules.Match, *Usage, *Assignment)
	// maxRules is the maximum number of counting rules of a call, and tooMany is
	// called above it.
	maxRules int
	tooMany  func()
}

// options are all options of an engine.
type options = wiring.EngineOptions

// Option is an option of New.
type Option func(*options)

// setting returns an option that changes the settings.
func setting(change func(*settings)) Option {
	return func(o *options) { change(o.Engine.(*settings)) }
}

// Observe calls f after each decision, in the goroutine of the caller of Decide.
// f must not retain its arguments.
func Observe(f func(*Call, *Decision, error)) Option {
	return setting(func(s *settings) { s.observe = f })
}

// ObserveMatches calls f after each decision of an operation that has a verdict, once per
// input that is not a refund. f gets the call, the rules of the decision, the rules that
// match the input, and its answer. Direct rules that refused the input have identities,
// too. f runs in the goroutine that called Decide, before the function passed to Observe,
// and must not retain its arguments. Inputs that no store decided are left out. For
// koalagate's own programs, may change.
func ObserveMatches(f func(*Call, *rules.Set, []rules.Match, *Answer)) Option {
	return setting(func(s *settings) { s.matched = f })
}

// ObserveReports calls f after each Assign with a report, with the rules that match the input:
// none in ModeOff, or if they could not be matched. After an error the Assignment is zero. f must not retain its arguments. For koalagate's own programs, may change.
func ObserveReports(f func(*Call, *rules.Set, []rules.Match, *Usage, *Assignment)) Option {
	return setting(func(s *settings) { s.reported = f })
}

// WithMaxRules limits the counting rules that the inputs of one call may match to n,
// 1 … 2048. A call above n is an InvalidError, or is refused if it sets RefuseExcess, and
// the engine calls exceeded, which must return at once and may be nil. Without this
// option, and with n out of range, the maximum is 2048.
func WithMaxRules(n int, exceeded func()) Option {
	return setting(func(s *settings) { s.maxRules, s.tooMany = n, exceeded })
}

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
