package rescue

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/koalagate/koalagate/internal/method"
	"github.com/koalagate/koalagate/internal/store"
)

// debts are hits that this instance owes to Redis. While Redis is in use, the local store
// decides a take only if the call was starved or its reply was lost, and owes what it
// admits. Redis usually counts a call that was sent (flight); the other hits are charged to
// Redis in the background (charges.go). Until every answer of Redis includes a hit, Redis
// must leave room for it: an admission stands only if as many hits remain as are owed. So
// this instance never exceeds the limit that an answer of Redis reports, which is the one with
// the least left, and the other instances exceed it at most by these debts. Other limits of the
// call may be exceeded until their first charge.
type debts struct {
	size atomic.Int32 // entries, and calls that are about to add one

	mu      sync.Mutex
	entries map[string]*debt // by the subject and the tag of a counter
	flights []flight
	key     []byte        // reused
	wake    chan struct{} // there are entries
}

// debt is the number of hits owed on one counter.
type debt struct {
	rule  store.Rule // its subject is the debt's own
	zone  *time.Location
	owed  int64 // hits to be charged
	sent  int64 // hits of a charge under way
	late  int64 // hits of flights
	paid  int64 // hits charged, or sent by their calls, since turn
	older int64 // hits charged, or sent, within flightTime before turn
	turn  time.Time
}

const (
	// maxDebts bounds the entries. Calls beyond it are refused.
	maxDebts = 4096
	// maxCharges is the number of counters that one plan charges: it occupies
	// Redis for some microseconds per counter.
	maxCharges = 64
	// chargeEvery is the time between two charges.
	chargeEvery = 10 * time.Millisecond
	// flightTime is longer than answers of Redis are on their way, unless this process
	// stands still: after it, every answer that arrives contains an earlier charge.
	flightTime = time.Second
	// refusedFor is the time in ms after which a call that was refused because of
	// debts may try again.
	refusedFor = 1000
)

func (d *debt) total() int64 { return d.owed + d.sent + d.late + d.paid + d.older }

// borrows reports whether the local store may admit the plan, for hits that this
// instance then owes to Redis.
func borrows(p *store.Plan, attempt store.Attempt) bool {
	if attempt.Health != store.Starved && attempt.Health != store.Failed || !takes(p) || p.Now != 0 {
		return false
	}
	return !slices.ContainsFunc(p.Sets, func(set store.Set) bool {
		return slices.ContainsFunc(set.Rules, func(r store.Rule) bool { return r.Strict })
	})
}

func takes(p *store.Plan) bool { return p.Op == store.Take || p.Op == store.CompleteTake }

// borrow decides a take by the local store, and records the admitted hits as debts.
// Calls that were not sent must be charged.
func (s *Store) borrow(ctx context.Context, p *store.Plan, a *store.Answers, attempt store.Attempt) error {
	d := &s.debts
	d.size.Add(1) // before the local store reads what Redis last reported: see Evaluate
	defer d.size.Add(-1)
	d.mu.Lock()
	defer d.mu.Unlock()
	err := s.local.Evaluate(ctx, atOnce(s.inProcess(p)), a)
	a.Degraded = true
	if err != nil {
		return err
	}
	allowed := p.Allowed(a)
	for i := range p.Sets {
		if len(d.entries)+len(p.Sets[i].Rules) > maxDebts || len(d.flights) >= maxDebts {
			refuse(&p.Sets[i], &a.Sets[i])
			return nil
		}
	}
	var list []borrowed
	for i := range p.Sets {
		list = d.add(list, p, i, &a.Sets[i], allowed)
	}
	if attempt.Late != nil && len(list) > 0 {
		p = cloned(p) // the caller reuses its plan
	}
	d.book(list, attempt, p)
	return nil
}

// atOnce returns the plan of a caller that does not wait: turns are given by Redis.
func atOnce(p *store.Plan) *store.Plan {
	if p.Patience == 0 || !p.Waits() {
		return p
	}
	changed := *p
	changed.Patience = 0
	return &changed
}

// records reports whether a take recorded the weight of rule j of a set: on a rule
// with an overdraft whenever its walk reached the rule, on others if the take was
// allowed and the rule admitted, or marked, the weight.
func records(set *store.Set, a *store.Answer, j int, allowed bool) bool {
	r := &set.Rules[j]
	switch {
	case set.Refund, r.Weight == 0, r.Outcome, method.Of(r.Method).Holds, a.Decider >= 0 && j > a.Decider:
		return false
	case r.Overdraft:
		return true
	}
	return allowed && j != a.Decider && (r.Marked || !slices.Contains(a.Refusals, j))
}

// add appends what set i of a take counted to list.
func (d *debts) add(list []borrowed, p *store.Plan, i int, a *store.Answer, allowed bool) []borrowed {
	set := &p.Sets[i]
	for j := range set.Rules {
		r := &set.Rules[j]
		if !records(set, a, j, allowed) {
			continue
		}
		one := d.of(r)
		if one == nil {
			one = &debt{rule: *r, turn: time.Now()}
			one.rule.Subject = bytes.Clone(r.Subject)
			d.entries[string(d.key)] = one
			d.size.Add(1)
		}
		subject := one.rule.Subject
		one.rule, one.zone = *r, p.Zone
		one.rule.Subject = subject
		list = append(list, borrowed{one, r.Weight})
	}
	return list
}

// of returns the debt on a rule's counter; nil if there is none. It leaves the
// counter's key in d.key.
func (d *debts) of(r *store.Rule) *debt {
	d.key = binary.BigEndian.AppendUint64(append(d.key[:0], r.Subject...), uint64(r.Tag()))
	return d.entries[string(d.key)]
}

// deduct corrects the answers of Redis to a take by what is owed on its counters, and
// seeds the local store with them. It reports whether it changed any.
func (s *Store) deduct(p *store.Plan, a *store.Answers) (changed bool) {
	if !takes(p) || !p.Allowed(a) {
		return false
	}
	d := &s.debts
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range p.Sets {
		set, got := &p.Sets[i], &a.Sets[i]
		if set.Refund || got.Reporter < 0 || got.Decider >= 0 {
			continue
		}
		owed := int64(0)
		for j := range set.Rules {
			if one := d.of(&set.Rules[j]); one != nil && set.Rules[j].Enforced() {
				owed = max(owed, one.total())
			}
		}
		switch {
		case owed == 0 || set.Rules[got.Reporter].Marked: // what remains of other limits is unknown
			continue
		case owed <= got.Remaining:
			got.Remaining -= owed
		default:
			refuse(set, got)
		}
		changed = true
	}
	if changed {
		// Under the lock: a call that borrows in between would not see this hit, and its own
		// hit would be missing in what is seeded.
		s.local.Seed(p, a)
	}
	return changed
}

// refuse turns an answer that allows a set into a refusal by its reporter, the
// rule with the least remaining, or by its first enforced rule if the reporter is marked.
func refuse(set *store.Set, a *store.Answer) {
	by := a.Reporter
	if by >= 0 && set.Rules[by].Marked {
		by = slices.IndexFunc(set.Rules, func(r store.Rule) bool { return r.Enforced() })
	}
	if by < 0 || set.Refund || set.Rules[by].Allows {
		return
	}
	a.Decider, a.Reporter, a.Remaining = by, by, 0
	a.Retry = min(max(a.Reset, 1), refusedFor)
}
