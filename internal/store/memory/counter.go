package memory

import (
	"time"

	"github.com/koalagate/koalagate/internal/store"
)

// A counter is the state of one rule and one subject. Its zero value is a counter
// on which nothing was counted. Each method has a type of its own: window, daily,
// slide, bucket and holds. The Lua files in redis/lua have the same arithmetic under the
// names of the methods.
//
// A counter neither reads a clock nor stores thresholds: each call passes both, so
// that reloaded thresholds apply at once to hits that are already counted.
type counter interface {
	// read sets got to the state of the counter, and whether the rule's weight fits.
	read(r *store.Rule, t *moment, got *reading)
	// add counts the rule's weight regardless of limits. A banned counter records
	// nothing, here and in refund.
	add(r *store.Rule, t *moment)
	// refund gives back the rule's weight, at most what was counted.
	refund(r *store.Rule, t *moment)
	// banned reports whether a ban has not ended.
	banned(now int64) bool
	// ban drops all hits and bans until the instant end, after which the counter is a
	// zero counter. Only count and leak rules ban.
	ban(end int64)
	// giveBack takes back what a take counted, as far as it is still there.
	giveBack(c *taken, t *moment)
	// amend changes what a take counted by n, if it is still there.
	amend(c *taken, n int64, t *moment)
	// save copies the state of the counter to s, and restore copies it back.
	save(s *saved)
	restore(s *saved)
	// clone returns a copy that shares nothing that changes.
	clone() counter
	// taken records in c what a take counted since the state was copied to before.
	taken(c *taken, before *saved, t *moment)
	// untaken records in c the state on which a take counted nothing.
	untaken(c *taken, t *moment)
	// seed makes the counter answer as another store did when it refused the
	// rule's weight.
	seed(r *store.Rule, a *store.Answer, t *moment)
	// raise makes the counter hold at least the hits of a state that another
	// store reported, for at least as long.
	raise(r *store.Rule, s *state, t *moment)
	// until returns the instant at which the counter ends: from then on it is like a
	// zero counter.
	until() int64
}

// moment is the time at which a plan is decided, and the calendar there.
type moment struct {
	now      int64 // ms since the epoch
	patience int64 // the longest wait that the caller can bear, in ms
	update   bool  // the operation is Update: it stops at an empty bucket
	full     bool  // no receipt can be kept: nothing is held
	zone     *time.Location
	calendar *store.Calendar
}

// unitEnd returns the end of the calendar unit that contains now. Only rules that
// need it pay for it.
func (t *moment) unitEnd(p store.Period) int64 { return t.calendar.End(t.zone, p, t.now) }

// dayEnd returns the end of the calendar day that contains now.
func (t *moment) dayEnd() int64 { return t.calendar.DayEnd(t.zone, t.now) }

// reading is the state of a counter as it answers a weight.
type reading struct {
	admits    bool // the weight fits
	daily     bool // the numbers describe a base rule's free hits
	limit     int64
	remaining int64
	reset     int64 // ms until remaining equals limit again
	retry     int64 // ms until the weight fits, or never; meaningless if admits
	hits      int64 // the hits that count now; for a base rule the hits of the day
	wait      int64 // ms until the turn of a weight that is admitted, but not there yet
	banned    bool  // reset and retry describe the ban
}

// banReading is the reading of a counter whose ban ends in left ms.
func banReading(r *store.Rule, left int64) reading {
	return reading{limit: r.Count, reset: left, retry: left, banned: true}
}

// needed returns the weight that must fit: a rule with an overdraft and one that settles
// admit a weight of 0 only if at least 1 fits, and an outcome rule admits any weight
// then.
func needed(r *store.Rule) int64 {
	if r.Outcome || r.Weight == 0 && (r.Overdraft || r.Settle > 0) {
		return 1
	}
	return r.Weight
}

// never is the retry of a weight that does not fit even into an unused counter.
const never = -1

// zero has a function for each method that returns its zero counter.
var zero = [store.Methods]func() counter{
	store.Count: func() counter { return new(window) },
	store.Base:  func() counter { return new(daily) },
	store.Leak:  func() counter { return new(slide) },
	store.Token: func() counter { return new(bucket) },
	store.Hold:  func() counter { return new(holds) },
}

// unused holds a zero counter of each method, to read for rules without one.
var unused = func() (counters [store.Methods]counter) {
	for m := range counters {
		if zero[m] != nil {
			counters[m] = zero[m]()
		}
	}
	return counters
}()

// saved is a copy of a counter, with which changes of it are undone. It has no copy of
// holds, which undo frees.
type saved struct {
	counter counter
	window  window
	daily   daily
	slide   slide
	bucket  bucket
}

// save copies the state of c. A shallow copy is enough: a slide never changes
// the runs that a copy of it refers to.
func (s *saved) save(c counter) {
	s.counter = c
	c.save(s)
}

// restore sets the counter to the copy.
func (s *saved) restore() {
	s.counter.restore(s)
	s.counter, s.slide = nil, slide{}
}
