package engine

import (
	"errors"
	"fmt"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/rules"
)

// Op is what a caller asks for.
type Op = store.Op

// The operations, as the rule language names them.
const (
	Take         = store.Take         // decide, and count if every set allows: what gateways call
	Browse       = store.Browse       // decide, count nothing
	Update       = store.Update       // count on every matching rule, whatever the limits
	Refund       = store.Refund       // give the weight back on every matching rule
	Complete     = store.Complete     // every rule that would decide, count nothing
	CompleteTake = store.CompleteTake // the same, and count if none refuses
	Peek         = store.Peek         // the state of one rule for one identity
	Reset        = store.Reset        // forget that state
)

// MaxHits bounds a weight, and so the hits of a set.
const MaxHits = store.MaxWeight

// Call is one question: an operation over one or more parameter sets, which
// are one atomic step.
type Call struct {
	// Rules is the generation that the parameters were made with, from
	// Engine.Rules: one call sees one generation. Nil takes the one in force.
	Rules *rules.Set
	// Door is where the call came in, for metrics and policies.
	Door string
	Op   Op
	Sets []Input // one at least
	// Rule is the number of the rule that Peek and Reset are about.
	Rule int64
	// Erase makes a Refund give back the hits that this feedback type of
	// every matching leak rule names, 1 or 2; 0 for the plain weight.
	Erase int
	// Fault is why the door could make no parameters of the request, nil if it
	// could. Decide returns it, unless the door's mode lets the request through.
	Fault error
	// Now is the time of the decision in ms since the epoch, for replay and
	// tests; 0 for the store's own clock.
	Now int64
	// Room is where the decision is made, for callers that ask again and
	// again; nil makes a new one.
	Room *Room
}

// Room is memory for a decision. What Decide returns for a call that brings it
// holds until the next call that does.
type Room struct {
	decision Decision
	sets     []Answer
}

// empty is a decision about n sets, in the call's room if it brings one.
func (c *Call) empty(n int) *Decision {
	if r := c.Room; r != nil {
		clear(r.sets) // as they were: what is behind them was cleared before
		r.sets = resize(r.sets, n)
		r.decision = Decision{Refuser: -1, Sets: r.sets, document: r.decision.document}
		return &r.decision
	}
	d := &struct {
		Decision
		one [1]Answer // a call of one set needs no second allocation
	}{}
	d.Refuser, d.Sets = -1, d.one[:]
	if n != 1 {
		d.Sets = make([]Answer, n)
	}
	return &d.Decision
}

// Input is one parameter set of a call.
type Input struct {
	Params *rules.Params // nil for none
	Hits   uint64        // 1 for an ordinary request; 0 looks without counting
	// Refund makes this set of a Take give its hits back; it is carried out
	// only if no other set is refused.
	Refund bool
	// Override is a limit that the call brings; nil for none.
	Override *Override
}

// Override is a limit of the call's own: every counting rule that the set
// meets acts as a count rule with these numbers for this call, in a state of
// its own. If none is met, an ad-hoc rule for exactly Entries applies.
type Override struct {
	Count   int64 // hits, 0 … 4 294 967 295
	Seconds int64 // 1 … 31 622 400; rules.Day is the calendar day
	// Entries are what the ad-hoc rule counts by: keys and values in turn.
	Entries []string
}

// InvalidError tells that a call cannot be decided as it stands. Nothing was
// counted.
type InvalidError struct{ Reason string }

// Error says what is wrong with the call.
func (e *InvalidError) Error() string { return "invalid call: " + e.Reason }

func invalid(format string, args ...any) error {
	return &InvalidError{fmt.Sprintf(format, args...)}
}

// IsInvalid tells whether err says that the call itself is wrong.
func IsInvalid(err error) bool {
	if err == nil {
		return false // before there is anything to allocate
	}
	var invalid *InvalidError
	return errors.As(err, &invalid)
}
