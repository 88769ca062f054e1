package rescue

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/koalagate/koalagate/internal/store"
)

// debts are hits of takes that the local store admitted although Redis is in use:
// those of calls that were starved, or of a lost reply. A call that was sent is
// counted by Redis all the same; others are charged to Redis in the background.
// Until such a hit is certain to be in every answer of Redis, an admission by
// Redis stands only if it leaves as many hits as are owed. So the admissions of
// this instance do not exceed a limit while Redis is in use; other instances may
// exceed it by what this one owes.
type debts struct {
	size atomic.Int32 // entries, and calls that are about to add one

	mu      sync.Mutex
	entries map[string]*debt // by the subject and the tag of a counter
	key     []byte           // reused
	wake    chan struct{}    // there are entries
}

// debt is what is owed on one counter.
type debt struct {
	rule  store.Rule // its subject is the debt's own
	zone  *time.Location
	owed  int64 // hits to be charged
	sent  int64 // hits of a charge under way
	paid  int64 // hits charged, or sent by their calls, since turn
	older int64 // the same within settleTime before that
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
	// settleTime is longer than an answer of Redis is on its way: after it, every
	// answer that arrives contains an earlier charge.
	settleTime = time.Second
	// refusedFor is after which time a call may try again that was refused
	// because of debts, in ms.
	refusedFor = 1000
)

func (d *debt) total() int64 { return d.owed + d.sent + d.paid + d.older }

// lends reports whether the local store may admit the plan at the expense of
// Redis.
func lends(p *store.Plan, attempt store.Attempt) bool {
	if attempt.Health != store.Starved && attempt.Health != store.Failed || !takes(p) || p.Now != 0 {
		return false
	}
	return !slices.ContainsFunc(p.Sets, func(set store.Set) bool {
		return slices.ContainsFunc(set.Rules, func(r store.Rule) bool { return r.Strict })
	})
}

func takes(p *store.Plan) bool { return p.Op == store.Take || p.Op == store.CompleteTake }

// lend has the local store decide a take, and records what it admits as debts.
// Calls that were not sent must be charged.
func (s *Store) lend(ctx context.Context, p *store.Plan, a *store.Answers, unsent bool) error {
	d := &s.debts
	d.size.Add(1) // before the local store reads what Redis last reported: see Evaluate
	defer d.size.Add(-1)
	d.mu.Lock()
	defer d.mu.Unlock()
	err := s.local.Evaluate(ctx, atOnce(s.inProcess(p)), a)
	if err != nil {
		return err
	}
	allowed := p.Allowed(a)
	for i := range p.Sets {
		if len(d.entries)+len(p.Sets[i].Rules) > maxDebts {
			refuse(&p.Sets[i], &a.Sets[i])
			return nil
		}
	}
	for i := range p.Sets {
		d.add(p, i, &a.Sets[i], allowed, unsent)
	}
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
// allowed and the rule admitted.
func records(set *store.Set, a *store.Answer, j int, allowed bool) bool {
	r := &set.Rules[j]
	switch {
	case set.Refund, r.Weight == 0, a.Decider >= 0 && j > a.Decider:
		return false
	case r.Overdraft:
		return true
	}
	return allowed && j != a.Decider && !slices.Contains(a.Refusals, j)
}

// add records what set i of a take counted.
func (d *debts) add(p *store.Plan, i int, a *store.Answer, allowed, unsent bool) {
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
		if unsent {
			one.owed += r.Weight
		} else {
			one.paid += r.Weight
		}
	}
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// of returns the debt on a rule's counter; nil if there is none. It leaves the
// counter's key in d.key.
func (d *debts) of(r *store.Rule) *debt {
	d.key = binary.BigEndian.AppendUint64(append(d.key[:0], r.Subject...), uint64(r.Tag()))
	return d.entries[string(d.key)]
}

// deduct corrects the answers of Redis to a take by what is owed on its counters.
// It reports whether it changed any.
func (d *debts) deduct(p *store.Plan, a *store.Answers) (changed bool) {
	if !takes(p) || !p.Allowed(a) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range p.Sets {
		set, got := &p.Sets[i], &a.Sets[i]
		if set.Refund || got.Reporter < 0 || got.Decider >= 0 {
			continue
		}
		owed := int64(0)
		for j := range set.Rules {
			if one := d.of(&set.Rules[j]); one != nil && !set.Rules[j].Shadow {
				owed = max(owed, one.total())
			}
		}
		switch {
		case owed == 0:
			continue
		case owed <= got.Remaining:
			got.Remaining -= owed
		default:
			refuse(set, got)
		}
		changed = true
	}
	return changed
}

// refuse turns an answer that allows a set into a refusal by its reporter, the
// rule with the least remaining.
func refuse(set *store.Set, a *store.Answer) {
	if a.Reporter < 0 || set.Refund || set.Rules[a.Reporter].Allows {
		return
	}
	a.Decider, a.Remaining = a.Reporter, 0
	a.Retry = min(max(a.Reset, 1), refusedFor)
}

// charge charges debts to Redis until ctx ends.
func (s *Store) charge(ctx context.Context) {
	d := &s.debts
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
		}
		for d.sweep(time.Now()) {
			if _, share := s.gate.load(); share == 0 {
				d.forget()
			} else {
				s.chargeSome(ctx)
			}
			if !s.pause(time.After(chargeEvery)) {
				return
			}
		}
	}
}

// chargeSome charges some of the debts. A charge that was sent is not repeated,
// even if it has no answer: no hit is counted twice.
func (s *Store) chargeSome(ctx context.Context) {
	d := &s.debts
	plan, charged := d.next()
	if len(charged) == 0 {
		return
	}
	var a store.Answers
	attempt, err := s.shared.Try(ctx, plan, &a)
	if err == nil && attempt.Health == store.Answered {
		s.local.Seed(plan, &a)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range charged {
		if err != nil && attempt.Unsent {
			one.owed += one.sent
		} else {
			one.paid += one.sent
		}
		one.sent = 0
	}
}

// next returns a plan that charges some of the debts, and those debts.
func (d *debts) next() (*store.Plan, []*debt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	plan := &store.Plan{Op: store.Update}
	var charged []*debt
	for _, one := range d.entries {
		if one.owed == 0 || plan.Zone != nil && plan.Zone != one.zone {
			continue
		}
		one.sent = min(one.owed, store.MaxWeight)
		one.owed -= one.sent
		rule := one.rule
		rule.Weight = one.sent
		rule.Overdraft = rule.Overdraft || rule.Wait > 0 // a take that waits may have emptied the bucket
		plan.Zone = one.zone
		plan.Sets = append(plan.Sets, store.Set{Rules: []store.Rule{rule}})
		if charged = append(charged, one); len(charged) == maxCharges {
			break
		}
	}
	return plan, charged
}

// sweep drops the debts that every answer of Redis contains by now, and reports
// whether any are left.
func (d *debts) sweep(now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, one := range d.entries {
		if now.Sub(one.turn) < settleTime {
			continue
		}
		one.older, one.paid, one.turn = one.paid, 0, now
		if one.total() == 0 {
			delete(d.entries, key)
			d.size.Add(-1)
		}
	}
	return len(d.entries) > 0
}

// forget drops all debts: Redis is unreachable, and what is counted in rescue is
// lost when it returns.
func (d *debts) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.size.Add(-int32(len(d.entries)))
	clear(d.entries)
}
