package engine

import (
	"context"
	"sync"
	"time"
)

// DefaultMaxWaiting is the default of WithMaxWaiting.
const DefaultMaxWaiting = 10_000

// WithMaxWaiting sets the number of calls of an engine that may wait for their turns at
// the same time; one rule gets at most half of them. Rules with wait=SECONDS refuse
// further calls. Without it, or with n below 1, it is DefaultMaxWaiting.
func WithMaxWaiting(n int) Option {
	return setting(func(s *settings) { s.maxWaiting = n })
}

// ObserveTooManyWaiting calls f for each call that must not wait because too many calls
// wait: the number of WithMaxWaiting, half of it for one rule, or the limit of the
// connection. For koalagate's own programs, may change.
func ObserveTooManyWaiting(f func()) Option {
	return setting(func(s *settings) { s.full = f })
}

// answerTime is the time that a door needs to answer after the turn of a call: a call
// whose deadline comes sooner does not wait.
const answerTime = 5 * time.Millisecond

// WaitLimit bounds the calls that wait at the same time and share a connection. It must be
// safe for concurrent use. For koalagate's own programs, may change.
type WaitLimit interface {
	// Enter admits one more waiting call, or returns false.
	Enter() bool
	// Leave ends the wait of a call that Enter admitted.
	Leave()
}

// WithWaitLimits sets a function that returns the limit of a call's connection, or nil.
// The function is only called for calls that rules with wait=SECONDS match. For
// koalagate's own programs, may change.
func WithWaitLimits(limit func(ctx context.Context) WaitLimit) Option {
	return setting(func(s *settings) { s.limitWaits = limit })
}

// turns holds the calls of an engine that wait for their turns.
type turns struct {
	most int

	mu      sync.Mutex
	places  int           // that are reserved
	byRule  map[int64]int // the same by the number of the rule
	waiting int           // calls that wait
	end     time.Time     // of the drain
	drained chan struct{} // closed when the drain begins
}

func newTurns(most int) *turns {
	if most < 1 {
		most = DefaultMaxWaiting
	}
	return &turns{most: most, byRule: make(map[int64]int), drained: make(chan struct{})}
}

// Waiting returns the number of calls that wait for their turns.
func (e *Engine) Waiting() int {
	if e == nil || e.turns == nil {
		return 0
	}
	e.turns.mu.Lock()
	defer e.turns.mu.Unlock()
	return e.turns.waiting
}

// Drain refuses, from now on, calls whose turns come after end. Calls that
// already wait give back what they took, and are refused at once. Only the first call has
// an effect.
func (e *Engine) Drain(end time.Time) {
	if e == nil || e.turns == nil {
		return
	}
	t := e.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.end.IsZero() {
		t.end = end
		close(t.drained)
	}
}

// place is what a call reserved before its step, so that it can wait.
type place struct {
	turns *turns
	conn  WaitLimit // nil without one
	rules []int64   // with a place for this call
}

// reserve reserves a place for a held call whose plan has rules with a wait. If there is
// none, the plan loses its patience; a rule that has used up its half loses its wait.
func (e *Engine) reserve(ctx context.Context, v *evaluation) {
	if v.plan.Patience == 0 {
		return
	}
	if deadline, ok := ctx.Deadline(); ok {
		v.limitPatience(time.Until(deadline) - answerTime)
	}
	var conn WaitLimit
	if e.limitWaits != nil {
		conn = e.limitWaits(ctx)
	}
	if conn != nil && !conn.Enter() {
		v.plan.Patience = 0
		e.reportFull()
		return
	}
	entered, full := e.turns.enter(v)
	if full {
		e.reportFull()
	}
	if !entered {
		v.plan.Patience = 0
		if conn != nil {
			conn.Leave()
		}
		return
	}
	v.place.conn = conn
}

func (e *Engine) reportFull() {
	if e.full != nil {
		e.full()
	}
}

// limitPatience shortens the patience of the plan.
func (v *evaluation) limitPatience(longest time.Duration) {
	v.plan.Patience = min(v.plan.Patience, max(longest.Milliseconds(), 0))
}

// enter reserves a place for the plan, and reports whether it did, and whether a bound
// kept the plan or one of its rules from waiting.
func (t *turns) enter(v *evaluation) (entered, full bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.end.IsZero() {
		v.limitPatience(time.Until(t.end))
	}
	if full = t.places >= t.most; full || v.plan.Patience == 0 {
		return false, full
	}
	t.places++
	p := &v.place
	p.turns, p.rules = t, p.rules[:0]
	for i := range v.plan.Sets {
		set := v.plan.Sets[i].Rules
		for j := range set {
			switch r := &set[j]; {
			case r.Wait == 0:
			case t.byRule[r.Return] >= max(t.most/2, 1):
				r.Wait, full = 0, true
			default:
				t.byRule[r.Return]++
				p.rules = append(p.rules, r.Return)
			}
		}
	}
	return true, full
}

// release frees the place.
func (p *place) release() {
	t := p.turns
	if t == nil {
		return
	}
	t.mu.Lock()
	t.places--
	for _, number := range p.rules {
		if t.byRule[number]--; t.byRule[number] == 0 {
			delete(t.byRule, number)
		}
	}
	t.mu.Unlock()
	if p.conn != nil {
		p.conn.Leave()
	}
	p.turns, p.conn = nil, nil
}

// hold returns the decision at the turn of the call. A call that leaves gives back
// what it took; one whose turn comes after the end of a drain does so, too, and is
// decided again without patience.
func (e *Engine) hold(ctx context.Context, c *Call, v *evaluation, d *Decision) (*Decision, error) {
	turn := time.Now().Add(d.Wait)
	t := e.turns
	t.count(1)
	defer t.count(-1)
	timer := time.NewTimer(d.Wait)
	defer timer.Stop()
	drained := t.drained
	for {
		select {
		case <-timer.C:
			return d, nil
		case <-ctx.Done():
			e.giveBack(ctx, v)
			return nil, ctx.Err()
		case <-drained:
			if !turn.After(t.drainEnd()) {
				drained = nil
				continue
			}
			e.giveBack(ctx, v)
			v.place.release()
			impatient := *c
			impatient.Patience = 0
			return e.evaluate(ctx, &impatient, v)
		}
	}
}

func (t *turns) count(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting += n
}

func (t *turns) drainEnd() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.end
}
