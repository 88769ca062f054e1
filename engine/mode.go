package engine

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/koalagate/koalagate/rules"
)

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
