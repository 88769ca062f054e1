package engine

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/koalagate/koalagate/rules"
)

// Decision is the answer to a Call. The zero value does not allow.
type Decision struct {
	// Verdict is the verdict of the first input that is refused, or allow if
	// none is. Operations that decide nothing have the verdict allow once they
	// are carried out.
	Verdict rules.Verdict
	// Refuser is the index of the first input that is refused, -1 if none is.
	Refuser int
	// Answers has one element per input, in order.
	Answers []Answer
	// At is the time of the decision by the clock of the store, in ms since the
	// epoch. It is 0 if the call touched no counter and set no Now.
	At int64
	// Wait is the time until the turn of an allowed call, the longest of its rules
	// with wait=SECONDS. Decide has already waited this long, unless Call.CallerWaits or
	// Call.Now is set. It is 0 if the call is refused, or has its turn at once.
	Wait time.Duration
	// Waiter is the rule behind Wait, nil if that is 0.
	Waiter *rules.Rule
	// Receipt settles the request when it has ended, see Settle. It is "" for a call
	// that is refused or needs no settlement, and for operations other
	// than Take and CompleteTake. It is a secret of the gateway and the application.
	Receipt string
	// Degraded is true if this instance's own counters decided because Redis
	// is unavailable.
	Degraded bool
	// StoreTime is the time that the store took, if it measures that.
	StoreTime time.Duration
	// Unavailable is true if no store could answer, if the engine has no rules, or if
	// Redis is unavailable and a rule with fail=gateway matches. The gateway then decides what happens
	// to the request. Answers is empty and Verdict is deny.
	Unavailable bool
	// Cause is the error behind Unavailable, for logs: the store's error, or
	// ErrNoRules. It is nil if fail=gateway is the reason.
	Cause error

	origin   Origin // of the call
	engine   *Engine
	document []byte // memory of the last Refusal
}

// unavailable returns the decision of an engine that cannot decide.
func unavailable(cause error) *Decision {
	return &Decision{Verdict: rules.Deny, Refuser: -1, Unavailable: true, Cause: cause}
}

// Allowed reports whether the request may pass. A nil Decision, which Decide
// returns with an error, is not allowed.
func (d *Decision) Allowed() bool { return d != nil && d.Verdict == rules.Allow }

// Single makes one the decision about input i alone, for doors that answer inputs
// separately. It keeps the request's identifier, and reuses the memory of one, including
// the document of its last Refusal. Without an input i, one allows nothing. For
// koalagate's own programs, may change.
func (d *Decision) Single(i int, one *Decision) {
	*one = Decision{
		Refuser: -1, Answers: one.Answers[:0], Degraded: d.Degraded, origin: d.origin, document: one.document,
	}
	if i < 0 || i >= len(d.Answers) {
		return
	}
	one.Verdict, one.Answers = d.Answers[i].Verdict, append(one.Answers, d.Answers[i])
	if one.Verdict != rules.Allow {
		one.Refuser = 0
	}
}

// Answer is the decision about one input. The zero value does not allow.
type Answer struct {
	// Verdict is the verdict about this input.
	Verdict rules.Verdict
	// Mode is ModeObserve or ModeOff if the mode of the door made Verdict allow;
	// "" if the door enforces.
	Mode Mode
	// Observed is the verdict that ModeObserve overruled: deny or challenge. It
	// is rules.VerdictUnset if nothing was overruled.
	Observed rules.Verdict
	// Matched is true if any rule matched.
	Matched bool
	// Decider is the rule that decided, or nil.
	Decider *rules.Rule
	// Result is the entry of [result] that applies. It is never nil after Take
	// and Browse. A negative Number means that it is no entry of the rule file:
	// the refusal of an Override, or the answer of a mode.
	Result *rules.Result
	// Limited is true if a counting rule decided or is reported, and Quota is
	// set.
	Limited bool
	// Quota is the state of the reported counter.
	Quota Quota
	// Retry is the time after which the same weight would fit. It is negative if no
	// counting rule refused the input, or if the weight will never fit.
	Retry time.Duration
	// Shadow lists the rules with shadow=1 that would have decided: counting
	// rules that refused the weight, and direct rules that matched.
	Shadow []Shadow
	// Marked lists the rules with mark=WORD that would have decided, in the order of the
	// file: they let pass, and count, what they would refuse. See Marks.
	Marked []*rules.Rule
	// Hits is the number of hits counted now; of a base rule, the hits of the day.
	// Peek sets it, and a decision by a rule with overdraft, whose hits may exceed its limit.
	Hits int64
	// Refusing lists the rules that would decide. Only Complete and CompleteTake
	// set it.
	Refusing []*rules.Rule
	// Exceptions are the exceptions that applied to matching rules, in the order of
	// the rules; nil for none.
	Exceptions []*Exception
	// Ban is the one of Exceptions with the kind ExceptBan that refused the input before any rule,
	// nil for none. Retry is then the time until its end, and no rule decided.
	Ban *Exception

	retry int64 // ms; 0 if Retry is exact
}

// RetryMS returns Retry in milliseconds, also beyond the 292 years of a Duration.
func (a *Answer) RetryMS() int64 {
	if a.Retry < 0 {
		return -1
	}
	return max(a.Retry.Milliseconds(), a.retry)
}

// Overruled reports whether ModeObserve let a refused input through.
func (a *Answer) Overruled() bool { return a.Observed != rules.VerdictUnset }

// Quota is the state of the reported counter after the decision.
type Quota struct {
	Rule      *rules.Rule   // nil for an Override that no rule matched
	Limit     int64         // hits per window
	Remaining int64         // hits
	Reset     time.Duration // until the counter is empty again; whole milliseconds, at most 292 years
	Window    int64         // length of the window of Limit, in seconds

	reset int64 // ms; 0 if Reset is exact
}

// ResetMS returns Reset in milliseconds, also beyond the 292 years of a Duration: a bucket
// far below empty takes longer to fill.
func (q *Quota) ResetMS() int64 { return max(q.Reset.Milliseconds(), q.reset) }

// Shadow is a rule that would have decided if it did not have shadow=1.
type Shadow struct {
	Rule    *rules.Rule
	Verdict rules.Verdict
}

// ShadowRules returns the numbers of all rules in the Shadow lists, each once, or
// nil if there are none.
func (d *Decision) ShadowRules() []int64 {
	var numbers []int64
	for i := range d.Answers {
		for _, s := range d.Answers[i].Shadow {
			if !slices.Contains(numbers, s.Rule.Return) {
				numbers = append(numbers, s.Rule.Return)
			}
		}
	}
	return numbers
}

// Marks returns the marks that the input carries, each once, in the order of the file, or nil
// if there are none.
func (a *Answer) Marks() []string { return appendMarks(nil, a) }

// Marks returns the marks of all inputs, each once, or nil if there are none.
func (d *Decision) Marks() []string {
	var marks []string
	for i := range d.Answers {
		marks = appendMarks(marks, &d.Answers[i])
	}
	return marks
}

func appendMarks(marks []string, a *Answer) []string {
	for _, r := range a.Marked {
		if !slices.Contains(marks, r.Mark) {
			marks = append(marks, r.Mark)
		}
	}
	return marks
}

// Mode determines the effect of a door's decisions.
type Mode string

// The modes of a door.
const (
	ModeEnforce Mode = "enforce" // decisions take effect
	ModeObserve Mode = "observe" // decide, count and report, but let every request through
	ModeOff     Mode = "off"     // let every request through, and count nothing
)

// ParseMode returns the mode with this name: enforce, observe or off.
func ParseMode(name string) (Mode, error) {
	if m := Mode(name); m.known() {
		return m, nil
	}
	return "", fmt.Errorf("unknown mode %q; want enforce, observe or off", name)
}

func (m Mode) known() bool { return m == ModeEnforce || m == ModeObserve || m == ModeOff }

// Modes holds the modes of doors, which may change while the doors work. The zero
// value enforces at every door. It is safe for concurrent use.
type Modes struct {
	// Changed is called after each change, one at a time; nil for none. It must
	// be set before the first change, and must not call Set.
	Changed func(door string, from, to Mode)

	mu    sync.Mutex
	modes atomic.Pointer[map[string]Mode] // replaced, never changed
}

// Of returns the mode of a door: ModeEnforce unless Set gave it another.
func (m *Modes) Of(door string) Mode {
	if m == nil {
		return ModeEnforce
	}
	if current := m.modes.Load(); current != nil {
		if mode, ok := (*current)[door]; ok {
			return mode
		}
	}
	return ModeEnforce
}

// Set changes the modes of several doors at once. A door with an unknown mode
// enforces.
func (m *Modes) Set(changes map[string]Mode) {
	m.mu.Lock()
	defer m.mu.Unlock()
	changes = maps.Clone(changes)
	before := make(map[string]Mode, len(changes))
	for door, mode := range changes {
		before[door] = m.Of(door)
		if !mode.known() {
			changes[door] = ModeEnforce
		}
	}
	after := make(map[string]Mode, len(changes))
	if current := m.modes.Load(); current != nil {
		maps.Copy(after, *current)
	}
	maps.Copy(after, changes)
	m.modes.Store(&after)
	for door, to := range changes {
		if from := before[door]; from != to && m.Changed != nil {
			m.Changed(door, from, to)
		}
	}
}

// WithModes sets the modes of the doors of an engine. Without it, or with nil,
// every door enforces.
func WithModes(m *Modes) Option {
	return setting(func(s *settings) { s.modes = m })
}

// passes reports whether ModeOff answers this operation itself. Peek and Reset
// still go to the counters.
func passes(op Op) bool { return op != Peek && op != Reset }

// unruled answers an input that no rule decided.
var unruled = &rules.Result{Number: -1, RetType: 1, StrReason: "Allow"}

// pass returns a decision that lets a call through without deciding it. overruled
// is the verdict that it would have had in ModeEnforce.
func pass(c *Call, mode Mode, overruled rules.Verdict) *Decision {
	d := c.empty(len(c.Inputs))
	d.Verdict = rules.Allow
	for i := range d.Answers {
		d.Answers[i] = Answer{Verdict: rules.Allow, Mode: mode, Observed: overruled, Result: unruled, Retry: -1}
	}
	return d
}

// observed returns the decision of a door in ModeObserve: everything is allowed,
// and Observed holds what was refused. An error of the caller's context stays an
// error.
func observed(c *Call, d *Decision, err error) (*Decision, error) {
	switch {
	case c.Fault != nil, IsInvalid(err):
		return pass(c, ModeObserve, rules.Deny), nil //nolint:nilerr // an enforcing door refuses because of the error: it is the observed refusal
	case err != nil:
		return nil, err
	case d.Unavailable:
		return pass(c, ModeObserve, rules.Deny), nil
	}
	d.Verdict, d.Refuser, d.Wait, d.Waiter = rules.Allow, -1, 0, nil
	for i := range d.Answers {
		a := &d.Answers[i]
		if a.Verdict != rules.Allow {
			a.Observed = a.Verdict
		}
		a.Mode, a.Verdict, a.Retry = ModeObserve, rules.Allow, -1
	}
	return d, nil
}
