package memory

import "github.com/koalagate/koalagate/internal/store"

// A counter is what is kept for one rule and one subject. Its zero value is a
// counter on which nothing was counted. The methods differ in their types:
// window, daily, slide and bucket; store/lua has the same arithmetic under
// the names of the methods.
//
// Nothing here reads a clock or checks a threshold: now and the thresholds
// come with the call, so that a reload holds at once for what is counted.
type counter interface {
	// look tells what the counter says to the rule's weight.
	look(r *store.Rule, t moment) reading
	// add counts the rule's weight, whatever the limits.
	add(r *store.Rule, t moment)
	// refund gives the rule's weight back, as far as it was counted.
	refund(r *store.Rule, t moment)
	// learn makes the counter answer as another store did when it refused the
	// rule's weight.
	seed(r *store.Rule, a *store.Answer, t moment)
	// until is the instant from which the counter is as new.
	until() int64
}

// moment is when a plan is decided.
type moment struct {
	now    int64 // ms since the epoch
	dayEnd int64 // the first later instant whose local date differs; 0 where no rule asks for it
}

// reading is what a counter says to a weight.
type reading struct {
	admits    bool
	daily     bool // the numbers are those of a base rule's free hits
	limit     int64
	remaining int64
	reset     int64 // ms until the counter is as new
	retry     int64 // ms until the weight fits, never if it cannot; says nothing if admits
	hits      int64 // what is counted now; of a base rule the day's
}

// never is the retry of a weight that does not fit into an empty counter.
const Never = -1

// newCounter returns the zero counter of a method.
func newCounter(m store.Method) counter {
	switch m {
	case store.Base:
		return new(daily)
	case store.Leak:
		return new(slide)
	case store.Token:
		return new(bucket)
	}
	return new(window)
}

// unused holds a zero counter of each method to look at where none is kept.
var unused = [...]counter{
	store.Count: new(window),
	store.Base:  new(daily),
	store.Leak:  new(slide),
	store.Token: new(bucket),
}

// saved is a copy of a counter, to undo what was counted on it.
type saved struct {
	counter counter
	window  window
	daily   daily
	slide   slide
	bucket  bucket
}

// save copies what c holds. A shallow copy is enough: a slide never changes
// the runs that a copy of it can see.
func (s *saved) save(c counter) {
	s.counter = c
	switch c := c.(type) {
	case *window:
		s.window = *c
	case *daily:
		s.daily = *c
	case *slide:
		s.slide = *c
	case *bucket:
		s.bucket = *c
	}
}

// restore puts back what save copied.
func (s *saved) restore() {
	switch c := s.counter.(type) {
	case *window:
		*c = s.window
	case *daily:
		*c = s.daily
	case *slide:
		*c = s.slide
	case *bucket:
		*c = s.bucket
	}
	s.counter, s.slide = nil, slide{}
}
