package operations

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/pace"
	"github.com/koalagate/koalagate/rules"
)

// AutomaticBan is a ban that a rule with ban= has opened.
type AutomaticBan struct {
	Named
	// Handle names the identity in changes at this instance; "" if no value is masked.
	Handle string `json:"handle,omitempty"`
	// BannedMS is the time until its end in ms.
	BannedMS int64 `json:"banned_ms"`
}

// bannedPlaces is the number of identities that were refused by rules with ban= and are
// remembered. A new one replaces the identity that was at its place.
const bannedPlaces = 1024

// bannedMemory remembers identities that rules with ban= have refused.
type bannedMemory struct {
	sync.Mutex
	places [bannedPlaces]bannedPlace
}

type bannedPlace struct {
	key      uint64 // as in Refusals; 0 for an empty place
	rule     int64
	door     string
	identity Identity
}

// add remembers the identity of a match.
func (b *bannedMemory) add(key uint64, door string, m *rules.Match) {
	b.Lock()
	defer b.Unlock()
	if place := &b.places[key>>8%bannedPlaces]; place.key != key {
		*place = bannedPlace{key, m.Rule.Return, door, identityOf(m)}
	}
}

func (b *bannedMemory) list() []bannedPlace {
	b.Lock()
	defer b.Unlock()
	return slices.DeleteFunc(slices.Clone(b.places[:]), func(p bannedPlace) bool { return p.key == 0 })
}

// Bans returns the bans in force that rules have opened for identities which this instance has
// refused of late, the one that ends last first. The values of the identities are masked. The
// error comes from ctx or from the counters.
func (d *Desk) Bans(ctx context.Context) ([]AutomaticBan, error) {
	list := []AutomaticBan{}
	set := d.inForce()
	if set == nil {
		return list, nil
	}
	var matches []rules.Match
	var doors []string
	for _, place := range d.refusals.banned.list() {
		if m, err := Identify(set, place.rule, place.identity); err == nil && m.Rule.Ban > 0 { // else the rules changed
			setLimits(&m)
			matches, doors = append(matches, m), append(doors, place.door)
		}
	}
	counters, _, err := d.counters(ctx, matches)
	if err != nil {
		return nil, err
	}
	for i := range counters {
		if left := counters[i].Banned; left > 0 {
			m := &matches[i]
			shown := d.masked(doors[i], m)
			list = append(list, AutomaticBan{Named{m.Rule.Return, m.Rule.Name, shown}, d.HandleOf(identityOf(m), shown), left.Milliseconds()})
		}
	}
	slices.SortStableFunc(list, func(a, b AutomaticBan) int { return int(min(max(b.BannedMS-a.BannedMS, -1), 1)) })
	return list, nil
}

// masked returns the identity of a match with values as they may be shown.
func (d *Desk) masked(door string, m *rules.Match) Identity {
	identity := make(Identity)
	for _, p := range m.Values() {
		identity[p.Name] = d.mask(door, p.Name, p.Value)
	}
	return identity
}

// counters reads counters, some at a time, and reports whether they come from this instance because
// Redis is unavailable.
func (d *Desk) counters(ctx context.Context, matches []rules.Match) (all []engine.Counter, degraded bool, err error) {
	all = make([]engine.Counter, 0, len(matches))
	for some := range slices.Chunk(matches, readAtOnce) {
		list, local, err := d.engine.Counters(ctx, some)
		if err != nil {
			return nil, false, unanswered(err)
		}
		all, degraded = append(all, list...), degraded || local
		if err := pace.Step(ctx); err != nil {
			return nil, false, err
		}
	}
	return all, degraded, nil
}

// Lift ends the bans that rules with ban= have opened for an identity, and for identities that have
// all of its parameters and that this instance has refused of late. It forgets the counters of
// these bans, and returns what it lifted. It masks values that identity does not have. Bans that were
// opened within the last age go on; 0 ends all.
func (d *Desk) Lift(ctx context.Context, identity Identity, age time.Duration) ([]Named, error) {
	set := d.inForce()
	if set == nil {
		return nil, nil
	}
	matches, found, err := d.mayBeBanned(ctx, set, identity)
	if err != nil {
		return nil, err
	}
	counters, degraded, err := d.counters(ctx, matches)
	switch {
	case err != nil:
		return nil, err
	case degraded && len(matches) > 0:
		return nil, unanswered(errors.New("Redis is unavailable"))
	}
	var lifted []Named
	for i := range counters {
		left, whole := counters[i].Banned, time.Duration(matches[i].Rule.Ban)*time.Second
		if left == 0 || age > 0 && whole-left < age {
			continue
		}
		if _, err := d.engine.ResetCounter(ctx, matches[i]); err != nil {
			return lifted, unanswered(err)
		}
		lifted = append(lifted, found[i])
	}
	return lifted, nil
}

// mayBeBanned returns the counters that may hold bans which Lift ends, and how it names them.
func (d *Desk) mayBeBanned(ctx context.Context, set *rules.Set, identity Identity) (matches []rules.Match, found []Named, err error) {
	seen := make(map[uint64]bool)
	add := func(m *rules.Match, door string) {
		key := d.refusals.key(m)
		if seen[key] {
			return
		}
		seen[key] = true
		shown := identityOf(m)
		for name, value := range shown {
			if _, isNamed := identity[name]; !isNamed && door != "" {
				shown[name] = d.mask(door, name, value)
			}
		}
		setLimits(m)
		matches, found = append(matches, *m), append(found, Named{m.Rule.Return, m.Rule.Name, shown})
	}
	params := rules.MakeParams(identity)
	for _, r := range set.Rules {
		if err := pace.Step(ctx); err != nil {
			return nil, nil, err
		}
		if r.Ban == 0 {
			continue
		}
		if m, err := r.Identify(namedBy(r, params)); err == nil {
			add(&m, "") // its other values are written in the rule
		}
	}
	for _, place := range d.refusals.banned.list() {
		if !place.identity.has(identity) {
			continue
		}
		if m, err := Identify(set, place.rule, place.identity); err == nil && m.Rule.Ban > 0 { // else the rules changed
			add(&m, place.door)
		}
	}
	return matches, found, nil
}

// has reports whether an identity has all of these parameters, whose values may have blanks around
// them, as conditions compare them.
func (i Identity) has(params Identity) bool {
	for name, value := range params {
		if got, known := i[name]; !known || strings.TrimSpace(got) != strings.TrimSpace(value) {
			return false
		}
	}
	return true
}

// setLimits sets limits by which the ban of an identity can be read: its own or, if they depend on
// more of a request, the least.
func setLimits(m *rules.Match) {
	params := new(rules.Params)
	for _, p := range m.Values() {
		params.SetNamed(p.Name, p.Value)
	}
	limits, limited := m.Rule.LimitsFor(params)
	if !limited {
		limits = m.Rule.Limits
	}
	for _, threshold := range []*int64{&limits.Time, &limits.Count, &limits.Burst, &limits.Base} {
		*threshold = max(*threshold, 1)
	}
	m.Limits = limits
}

// namedBy returns those parameters by which a rule counts.
func namedBy(r *rules.Rule, params *rules.Params) *rules.Params {
	named := new(rules.Params)
	names := r.CountsBy()
	for _, p := range params.List() {
		if slices.Contains(names, p.Name) {
			named.SetNamed(params.FullName(p.Name), p.Value)
		}
	}
	return named
}

// WhyBan is the exception that bans a request from everything.
type WhyBan struct {
	Exception string    `json:"exception"` // its ID
	Until     time.Time `json:"until"`
}

// whyBan returns the document of a ban, nil for none.
func whyBan(x *engine.Exception) *WhyBan {
	if x == nil {
		return nil
	}
	return &WhyBan{x.ID, time.UnixMilli(x.Until).UTC()}
}
