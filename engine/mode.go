package engine

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/koalagate/koalagate/rules"
)

// Mode says what becomes of the decisions of a door.
type Mode string

// The modes of a door.
const (
	ModeEnforce Mode = "enforce" // what is decided holds
	ModeObserve Mode = "observe" // decides, counts and tells, and lets everything through
	ModeOff     Mode = "off"     // lets everything through, and counts nothing
)

// ParseMode reads the name of a mode.
func ParseMode(name string) (Mode, error) {
	switch m := Mode(name); m {
	case ModeEnforce, ModeObserve, ModeOff:
		return m, nil
	}
	return "", fmt.Errorf("%q is no mode; want enforce, observe or off", name)
}

// Modes are the modes of doors, which change while the doors work. In the zero
// value every door enforces. It is safe for concurrent use.
type Modes struct {
	// Changed hears of every change, one after the other; nil for nobody. It
	// must be set before the first change, and change nothing itself.
	Changed func(door string, from, to Mode)

	mu    sync.Mutex
	modes atomic.Pointer[map[string]Mode] // never changed, replaced
}

// Of is the mode of a door.
func (m *Modes) Of(door string) Mode {
	if known := m.modes.Load(); known != nil {
		if mode, ok := (*known)[door]; ok {
			return mode
		}
	}
	return ModeEnforce
}

// Set puts doors into modes, all at once.
func (m *Modes) Set(changes map[string]Mode) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := make(map[string]Mode, len(changes))
	for door := range changes {
		before[door] = m.Of(door)
	}
	after := make(map[string]Mode, len(changes))
	if known := m.modes.Load(); known != nil {
		maps.Copy(after, *known)
	}
	maps.Copy(after, changes)
	m.modes.Store(&after)
	for door, to := range changes {
		if from := before[door]; from != to && m.Changed != nil {
			m.Changed(door, from, to)
		}
	}
}

// WithModes has m say what becomes of the decisions about calls of a door. An
// engine without enforces all.
func WithModes(m *Modes) Option {
	return func(e *Engine) { e.modes = m }
}

// passes tells whether a door that is off answers a call of this operation
// itself: whatever decides or counts. Looks at a counter stay true.
func passes(op Op) bool { return op != Peek && op != Reset }

// decides tells whether an operation has a verdict.
func decides(op Op) bool {
	return op == Take || op == Browse || op == Complete || op == CompleteTake
}

// unruled answers a set that no rule has decided about.
var unruled = &rules.Result{Number: -1, RetType: 1, StrReason: "Allow"}

// pass is a decision that lets a call through that was not decided; observed
// is what would have become of it.
func pass(c *Call, mode Mode, observed rules.Verdict) *Decision {
	d := c.empty(len(c.Sets))
	for i := range d.Sets {
		d.Sets[i] = Answer{Mode: mode, Observed: observed, Result: unruled, Retry: -1}
	}
	return d
}

// observed is what a door in ModeObserve has to tell: that all is allowed, and
// what was decided. An error that is the caller's own stays one.
func observed(c *Call, d *Decision, err error) (*Decision, error) {
	switch {
	case c.Fault != nil, IsInvalid(err):
		return pass(c, ModeObserve, rules.Deny), nil //nolint:nilerr // the error is what is observed: an enforcing door refuses for it
	case err != nil:
		return nil, err
	case d.Unavailable:
		return pass(c, ModeObserve, rules.Deny), nil
	}
	d.Verdict, d.Refuser = rules.Allow, -1
	for i := range d.Sets {
		a := &d.Sets[i]
		a.Mode, a.Observed, a.Verdict, a.Retry = ModeObserve, a.Verdict, rules.Allow, -1
	}
	return d, nil
}
