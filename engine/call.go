package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/rules"
)

// Op is the operation of a Call. The zero value is invalid.
type Op uint8

// The operations, as the rule language names them.
const (
	Take         Op = iota + 1 // decide, and count if every input is allowed: the operation of gateways
	Browse                     // decide, count nothing
	Update                     // count on every matching rule, whatever the limits
	Refund                     // give the hits back on every matching rule
	Complete                   // list every rule that would refuse, count nothing
	CompleteTake               // list every rule that would refuse, and count if none does
	Peek                       // read the state of one rule for one identity
	Reset                      // forget the state of one rule for one identity
)

var opNames = [...]string{
	Take:         "take",
	Browse:       "browse",
	Update:       "update",
	Refund:       "refund",
	Complete:     "browse-complete",
	CompleteTake: "take-complete",
	Peek:         "peek",
	Reset:        "reset",
}

// String returns the name of the operation in traces.
func (op Op) String() string {
	if op.known() {
		return opNames[op]
	}
	return fmt.Sprintf("op(%d)", uint8(op))
}

func (op Op) known() bool { return op >= Take && op <= Reset }

// Decides reports whether the operation has a verdict.
func (op Op) Decides() bool {
	return op == Take || op == Browse || op == Complete || op == CompleteTake
}

// MaxHits is the largest Input.Hits, and the largest product of hits and cost.
const MaxHits = 1_000_000_000_000_000

// MaxWait is the longest wait that a rule can have.
const MaxWait = time.Minute

// Call is an operation on one or more inputs, which the engine evaluates in one
// atomic step. Op and Inputs are required.
type Call struct {
	// Rules is the generation that the parameters were derived with, from
	// Engine.Rules, so that one call uses one generation. Nil means the current one.
	Rules *rules.Set
	// Door is the name of the entry point of the call, for Modes, Policies and
	// metrics.
	Door string
	// Op is the operation. The zero value is an error.
	Op Op
	// Inputs are the parameter sets to decide, at least one. Take counts all of them
	// or, if one is refused, none.
	Inputs []Input
	// Rule is the number of the rule that Peek and Reset concern, and is required for them.
	// A number that no rule has concerns nothing, which is no error.
	Rule int64
	// Erase makes a Refund give back the hits that every matching leak rule
	// names for this type of feedback, 1 or 2. 0 gives back the weight. It is an
	// error with any other operation.
	Erase int
	// Origin names the request in logs and refusals; nil for no name.
	Origin Origin
	// RefuseExcess makes a Take refuse inputs whose weight exceeds MaxHits, or that match
	// too many rules, with status 429, and count nothing. Otherwise such a call is an
	// InvalidError. It is for doors whose gateways let requests pass on an error. For
	// koalagate's own programs, may change.
	RefuseExcess bool
	// Source finds the limits of the inputs that are Sourced. Nil, the zero value, is for
	// calls without such inputs.
	Source Source
	// Fault is the error that prevented the door from deriving parameters from the
	// request, or nil. Decide returns it, unless the mode of the door lets the
	// request through.
	Fault error
	// Now is the time of the decision in ms since the epoch, 0 … 2^46, for replay and
	// tests. 0 uses the clock of the store; rules with since and until then use
	// the time of its last answer.
	Now int64
	// Patience is the longest time that a Take can wait for its turn: Decide returns at
	// the turn. A rule with wait=SECONDS refuses a call that would have to wait for
	// longer, or longer than the deadline of its context. With 0, the zero value, no
	// call waits.
	Patience time.Duration
	// CallerWaits makes Decide return at once. The caller then holds the request for
	// Decision.Wait.
	CallerWaits bool
	// Unobserved hides the call from the functions of Observe and ObserveMatches, for
	// diagnostic calls. For koalagate's own programs, may change.
	Unobserved bool
	// Charges marks a Take that records hits, and by which nobody decides: it is no request. If it is
	// Unobserved, the function of Observe gets it nevertheless, and must not report it. For
	// koalagate's own programs, may change.
	Charges bool
	// Scratch is memory that Decide reuses for the decision, to avoid allocations.
	// Nil allocates new memory.
	Scratch *Scratch
}

// Origin names the request behind a call.
type Origin interface {
	// RequestID returns the identifier that the gateway gave the request, "" for none: up
	// to 128 letters, digits and the signs - _ . : / + = @ ~, which logs and refusals
	// repeat.
	RequestID() string
}

// Scratch is reusable memory for decisions. A Decision built in it is valid until
// the next call with the same Scratch. The zero value is ready for use.
type Scratch struct {
	decision Decision
	answers  []Answer
}

// empty returns a decision about n inputs without a verdict, in the scratch
// memory of the call if it has any.
func (c *Call) empty(n int) *Decision {
	if s := c.Scratch; s != nil {
		clear(s.answers) // those behind its length were cleared before
		s.answers = resize(s.answers, n)
		s.decision = Decision{Refuser: -1, Answers: s.answers, origin: c.Origin, document: s.decision.document}
		return &s.decision
	}
	d := &struct {
		Decision
		one [1]Answer // a call with one input needs no second allocation
	}{}
	d.Refuser, d.Answers, d.origin = -1, d.one[:], c.Origin
	if n != 1 {
		d.Answers = make([]Answer, n)
	}
	return &d.Decision
}

// check returns an InvalidError if the call asks for something that no request
// can ask for. No mode of a door lets such a call through.
func (c *Call) check() error {
	switch {
	case c == nil:
		return invalid("it is nil")
	case !c.Op.known():
		return invalid("unknown operation %d; set Op to Take or another operation of this package", uint8(c.Op))
	case c.Fault != nil:
		return nil //nolint:nilerr // the request is at fault; it leaves no parameters to check
	case len(c.Inputs) == 0:
		return invalid("no inputs; want at least one")
	case c.Erase < 0 || c.Erase > 2:
		return invalid("erase is %d; want 0, 1 or 2", c.Erase)
	case c.Patience < 0:
		return invalid("patience is %v; want 0 or more", c.Patience)
	case c.Now < 0 || c.Now > store.MaxNow:
		return invalid("now is %d; want 0 … %d ms since the epoch", c.Now, int64(store.MaxNow))
	case c.Rule < 1 && (c.Op == Peek || c.Op == Reset):
		return invalid("rule is %d for %v; want the number of a rule", c.Rule, c.Op)
	case c.Erase != 0 && c.Op != Refund:
		return invalid("erase is set for %v; want it with refund only", c.Op)
	}
	return c.checkInputs()
}

// checkInputs returns an error for inputs that the operation does not allow.
func (c *Call) checkInputs() error {
	for i := range c.Inputs {
		switch in := &c.Inputs[i]; {
		case in.Refund && c.Op != Take:
			return invalid("input %d is a refund in a call of %v; want it in take only", i, c.Op)
		case in.Sourced && c.Source == nil:
			return invalid("input %d is Sourced, and the call has no Source", i)
		case in.NoHits && in.Hits != 0:
			return invalid("input %d has %d hits and NoHits; leave one of them out", i, in.Hits)
		}
	}
	return nil
}

// isHeld reports whether Decide returns at the turn of the call. A call with a clock
// of its own, as in a replay, has its turn by that clock.
func (c *Call) isHeld() bool { return c.Op == Take && !c.CallerWaits && c.Now == 0 }

// refusesExcess reports whether the call refuses inputs that exceed a bound.
func (c *Call) refusesExcess() bool { return c.RefuseExcess && c.Op == Take }

// Input is one parameter set of a call, and its weight. The zero value is one hit
// without parameters.
type Input struct {
	// Params are the parameters of the request; nil for none.
	Params *rules.Params
	// Hits is the number of hits, 1 … MaxHits. 0 means 1. Call.RefuseExcess
	// decides about larger numbers.
	Hits uint64
	// NoHits gives the input the weight 0: it is decided by the current counters, and
	// nothing is counted. Hits must be 0.
	NoHits bool
	// Refund makes this input of a Take give its hits back, if no other input is
	// refused. The input itself is never refused. It is an error with any other
	// operation.
	Refund bool
	// Charge states that the input counts what has happened already, which a limit of Call.Source
	// may do in a Take. As for Update, bans do not concern it.
	Charge bool
	// Sourced makes the input meet the limits of Call.Source instead of the rules. Without
	// a Source it is an error. No entry of [result] answers such an input: without a
	// limit it is allowed.
	Sourced bool
	// Override replaces the limits of the rules for this input; nil for none.
	Override *Override
}

// Source finds the limits of a call that come from another configuration than the rules.
// The engine decides them and the rules in one atomic step. It calls the methods in the
// goroutine of Decide.
type Source interface {
	// Match sets m.List to the limits that input i of the call meets, in the order in which
	// they decide; i is 0 … len(Call.Inputs)-1. Each Rule needs a Result. Two limits share
	// a counter only if their identities, methods and numbers (Rule.Return) are equal. The
	// engine does not change m.List but for exceptions, and uses it, with its identities, until
	// Decide returns.
	Match(i int, m *rules.Matches)
	// Conclude may change the decision where it depends on several limits. The mode of the
	// door applies to the result. If it refuses a take that was counted, the rules of the
	// call give back its hits; the limits keep them. The engine does not call it for a decision that is
	// Unavailable, and in ModeOff.
	Conclude(d *Decision)
}

// EffectiveHits returns the number of hits that the engine decides by: 0 with NoHits,
// else Hits, or 1 if Hits is 0.
func (in *Input) EffectiveHits() uint64 {
	if in.NoHits {
		return 0
	}
	return max(in.Hits, 1)
}

// Override is a limit that is part of a call. Every counting rule that matches the
// input acts as a count rule with these numbers for this call, with a counter of its
// own. If no counting rule matches, an ad-hoc rule counts by Entries.
type Override struct {
	Count   int64 // hits per window, 0 … 4,294,967,295
	Seconds int64 // length of the window, 1 … 31,622,400; rules.Day is the calendar day
	// Entries are alternating keys and values, by which the ad-hoc rule counts.
	Entries []string
}

// The bounds of an Override.
const (
	maxCount   = 1<<32 - 1
	maxSeconds = 31_622_400
)

func (o *Override) check() error {
	switch {
	case o == nil:
		return nil
	case o.Count < 0 || o.Count > maxCount:
		return invalid("the count of an override is %d; want 0 … %d", o.Count, int64(maxCount))
	case o.Seconds < 1 || o.Seconds > maxSeconds:
		return invalid("the window of an override is %d s; want 1 … %d", o.Seconds, maxSeconds)
	}
	return nil
}

// InvalidError reports that a call cannot be decided because of its own
// contents. Nothing was counted.
type InvalidError struct{ Reason string }

// Error returns the reason after the words "invalid call".
func (e *InvalidError) Error() string { return "invalid call: " + e.Reason }

func invalid(format string, args ...any) error {
	return &InvalidError{fmt.Sprintf(format, args...)}
}

// IsInvalid reports whether err is or wraps an InvalidError.
func IsInvalid(err error) bool {
	if err == nil {
		return false // errors.As makes the target escape to the heap
	}
	var invalid *InvalidError
	return errors.As(err, &invalid)
}
