package engine

import (
	"context"

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
// match the input, and its answer. f runs in the goroutine that called Decide, before the
// function passed to Observe, and must not retain its arguments. Inputs that no store
// decided are left out. For koalagate's own programs, may change.
func ObserveMatches(f func(*Call, *rules.Set, []rules.Match, *Answer)) Option {
	return setting(func(s *settings) { s.matched = f })
}

// WithMaxRules limits the counting rules that the inputs of one call may match to n,
// 1 … 2048. A call above n is an InvalidError, or is refused if it sets RefuseExcess, and
// the engine calls exceeded, which must return at once and may be nil. Without this
// option, and with n out of range, the maximum is 2048.
func WithMaxRules(n int, exceeded func()) Option {
	return setting(func(s *settings) { s.maxRules, s.tooMany = n, exceeded })
}
