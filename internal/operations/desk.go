// Package operations answers the questions of operators about a running engine, and
// carries out their changes. It knows no protocol: internal/adminapi serves it at the admin
// address.
//
// A Desk explains why an identity is limited and forgets its counter (why.go, desk.go,
// refusals.go), bounds its questions (bounds.go), shows the rules in force (book.go), and checks, explains and replays drafts of
// rules that are not in force (draft.go, replay.go). modes.go checks changes of the modes of
// doors, and imported.go adds the limits that a service imported from envoyproxy/ratelimit.
package operations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/display"
	"github.com/koalagate/koalagate/internal/identities"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/rules"
)

// Options are the options of New. Engine is required.
type Options struct {
	Engine *engine.Engine
	// Mapping are the options by which the doors map requests. Questions have their bounds.
	Mapping mapping.Options
	// MaxHeader is the maximum size of a request in a question, in bytes, as of the header of
	// a request at the doors; 0 means http.DefaultMaxHeaderBytes.
	MaxHeader int
	// MaxRules is the maximum number of counters that a question reads; 0 means the maximum of
	// the engine.
	MaxRules int
	// Refusals remembers the refusals of identities; nil remembers none.
	Refusals *Refusals
	// Rules are the options by which the service parses rule files.
	Rules rules.Options
	// Presentation selects the headers that clients receive.
	Presentation engine.Presentation
	// Imported are imported limits, which decide before the rules; nil for none.
	Imported *Imported
	// Log is the decision log that Replay reads.
	Log DecisionLog
	// Mask returns a value of a parameter at a door as lists of identities may show it; nil shows
	// all.
	Mask func(door, name, value string) string
	// Identities remembers the identities of masked rows by handle; nil for a memory that masks
	// nothing.
	Identities *identities.Memory
}

// Desk answers questions and carries out changes. It is safe for concurrent use.
type Desk struct {
	engine       *engine.Engine
	mapping      mapping.Options
	maxHeader    int
	maxRules     int
	refusals     *Refusals
	rules        rules.Options
	presentation engine.Presentation
	imported     *Imported
	log          DecisionLog
	mask         func(door, name, value string) string
	identities   *identities.Memory
}

// New returns a desk.
func New(o Options) *Desk {
	if o.Refusals == nil {
		o.Refusals = NewRefusals()
	}
	if o.Mask == nil {
		o.Mask = func(_, _, value string) string { return value }
	}
	if o.Identities == nil {
		o.Identities = identities.New(identities.Options{})
	}
	return &Desk{
		engine: o.Engine, mapping: o.Mapping, maxHeader: cmp.Or(o.MaxHeader, http.DefaultMaxHeaderBytes), maxRules: cmp.Or(o.MaxRules, store.MaxRules),
		refusals: o.Refusals, rules: o.Rules, presentation: o.Presentation, imported: o.Imported, log: o.Log, mask: o.Mask, identities: o.Identities,
	}
}

// errNoRules is the error of questions and changes before the first rules.
var errNoRules = InputError{errors.New("there are no rules yet; publish some, or wait until they are loaded")}

// inForce returns the rules in force, nil before the first ones.
func (d *Desk) inForce() *rules.Set {
	if !d.engine.HasRules() {
		return nil
	}
	return d.engine.Rules()
}

// InputError reports a question or change that cannot be carried out because of its own
// contents. Nothing was done.
type InputError struct{ error }

// Unwrap returns the error itself.
func (e InputError) Unwrap() error { return e.error }

func invalid(format string, args ...any) error { return InputError{fmt.Errorf(format, args...)} }

// unanswered returns the error of a question that no store answered because of err, which may
// be nil.
func unanswered(err error) error {
	if err == nil {
		return errors.New("no store answered")
	}
	return fmt.Errorf("no store answered: %w", err)
}

// Identity is a set of parameters that select a counter, by name. A value from a later
// source of its parameter has the name NAME@KIND, such as uid@client-ip.
type Identity map[string]string

// String returns the parameters as commands write them: act=comment uid=ann.
func (i Identity) String() string {
	list := make([]rules.Param, 0, len(i))
	for _, name := range slices.Sorted(maps.Keys(i)) {
		list = append(list, rules.Param{Name: name, Value: i[name]})
	}
	return display.Identity(list)
}

// identityOf returns the identity of a match.
func identityOf(m *rules.Match) Identity {
	identity := make(Identity)
	for _, p := range m.Values() {
		identity[p.Name] = p.Value
	}
	return identity
}

// Named is a rule and an identity of it.
type Named struct {
	Rule     int64    `json:"rule"`
	Name     string   `json:"name,omitempty"`
	Identity Identity `json:"identity"`
}

// Identify returns the match of a rule and an identity. The error is an InputError.
func Identify(set *rules.Set, rule int64, identity Identity) (rules.Match, error) {
	r := set.Rule(rule)
	if r == nil {
		return rules.Match{}, noRule(rule)
	}
	m, err := r.Identify(rules.MakeParams(identity))
	if err != nil {
		return m, InputError{err}
	}
	return m, nil
}

// ResetDone is the outcome of Reset.
type ResetDone struct {
	Named
	// Degraded reports that Redis is unavailable, so that only the counter of this
	// instance was forgotten.
	Degraded bool `json:"degraded"`
}

// Named returns the identity that parameters and a handle name, and the names of those values that
// must not be shown. Without a handle, the parameters name it themselves. The error is an
// InputError.
func (d *Desk) Named(handle string, params Identity) (identity Identity, masked []string, err error) {
	identity, masked, err = d.identities.Resolve(handle, params)
	if err != nil {
		return nil, nil, InputError{err}
	}
	return identity, masked, nil
}

// HandleOf returns a handle for an identity and what is shown of it: "" without a mask.
func (d *Desk) HandleOf(identity, shown Identity) string { return d.identities.Handle(identity, shown) }

// Hide returns an identity with masks instead of the values with these names.
func (d *Desk) Hide(identity Identity, masked []string) Identity {
	return d.identities.Hide(identity, masked)
}

// Reset forgets the counter of a rule for an identity, and lifts its ban. A handle names the
// identity of a masked row, as in Named; the outcome then shows the masks.
func (d *Desk) Reset(ctx context.Context, rule int64, params Identity, handle string) (*ResetDone, error) {
	set := d.inForce()
	if set == nil {
		return nil, errNoRules
	}
	identity, masked, err := d.Named(handle, params)
	if err != nil {
		return nil, err
	}
	m, err := Identify(set, rule, identity)
	if err != nil {
		return nil, err
	}
	degraded, err := d.engine.ResetCounter(ctx, m)
	switch {
	case engine.IsInvalid(err):
		return nil, invalid("rule %s has no counter", m.Rule.Label())
	case err != nil:
		return nil, unanswered(err)
	}
	return &ResetDone{Named{rule, m.Rule.Name, d.Hide(identityOf(&m), masked)}, degraded}, nil
}
