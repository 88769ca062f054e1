package rescue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/koalagate/koalagate/internal/method"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// charge charges debts to Redis until ctx ends.
func (s *Store) charge(ctx context.Context) {
	d := &s.debts
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
		}
		for s.land(); d.sweep(time.Now()); s.land() {
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

// chargeSome charges some of the debts. A charge that may have been counted is not
// repeated.
func (s *Store) chargeSome(ctx context.Context) {
	d := &s.debts
	plan, charged, fault := d.next()
	if fault != nil && s.onRescue != nil {
		s.onRescue(fmt.Errorf("a hit that was decided in process is not charged to Redis: %w", fault))
	}
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
	for i := range charged {
		charged[i].debt.sent = 0
	}
	d.book(charged, attempt, plan)
}

// next returns a plan that charges some of the debts, and those debts. It drops a debt that
// no plan may have, which would keep all others of its plan from being charged, for ever:
// fault describes the last of them.
func (d *debts) next() (plan *store.Plan, charged []borrowed, fault error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	plan = &store.Plan{Op: store.Update}
	for key, one := range d.entries {
		if one.owed == 0 || plan.Zone != nil && plan.Zone != one.zone {
			continue
		}
		rule := one.rule
		rule.Weight = min(one.owed, store.MaxWeight)
		// Takes may have left a bucket below empty, where an update alone stops.
		rule.Overdraft = rule.Overdraft || method.Of(rule.Method).Refills && (rule.Wait > 0 || rule.Marked)
		set := store.Set{Rules: []store.Rule{rule}}
		if err := (&store.Plan{Op: plan.Op, Sets: []store.Set{set}}).Validate(); err != nil {
			fault = err
			delete(d.entries, key)
			d.size.Add(-1)
			continue
		}
		one.sent = rule.Weight
		one.owed -= one.sent
		plan.Zone = one.zone
		charged = append(charged, borrowed{one, one.sent})
		plan.Sets = append(plan.Sets, set)
		if len(charged) == maxCharges {
			break
		}
	}
	return plan, charged, fault
}

// sweep drops the debts that every answer of Redis contains by now, and reports
// whether any are left.
func (d *debts) sweep(now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, one := range d.entries {
		if now.Sub(one.turn) < flightTime {
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

// forget drops all debts: Redis is unreachable, and hits that are counted in rescue are
// lost when it returns.
func (d *debts) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.size.Add(-int32(len(d.entries)))
	clear(d.entries)
	d.flights = nil
}

// flight is a call on its way to Redis, or back, whose caller did not wait for its
// answer. A process that is short of CPU may write it to its connection seconds later,
// or never, because the time of the call has run out.
type flight struct {
	late store.Late
	plan *store.Plan
	list []borrowed
}

// borrowed are the hits of a rule of a plan that are owed.
type borrowed struct {
	debt *debt
	hits int64
}

// book adds the hits of a call to what is owed, by what is known of the call. It keeps
// p if the call is late. It requires d.mu.
func (d *debts) book(list []borrowed, attempt store.Attempt, p *store.Plan) {
	if len(list) == 0 {
		return
	}
	for _, l := range list {
		switch {
		case attempt.Unsent:
			l.debt.owed += l.hits
		case attempt.Late != nil:
			l.debt.late += l.hits
		default:
			l.debt.paid += l.hits
		}
	}
	if attempt.Late != nil && !attempt.Unsent {
		d.flights = append(d.flights, flight{attempt.Late, p, list})
	}
	select {
	case d.wake <- struct{}{}:
	default: // the charges are running
	}
}

// land ends the flights whose calls have ended: hits that Redis did not count must be
// charged.
func (s *Store) land() {
	d := &s.debts
	d.mu.Lock()
	defer d.mu.Unlock()
	var a store.Answers
	d.flights = slices.DeleteFunc(d.flights, func(f flight) bool {
		ended, err := f.late.Result(f.plan, &a)
		if !ended {
			return false
		}
		if err == nil {
			s.local.Seed(f.plan, &a)
		}
		for _, l := range f.list {
			l.debt.late -= l.hits
			if errors.Is(err, redisconn.ErrUnsent) {
				l.debt.owed += l.hits
			} else {
				l.debt.paid += l.hits
			}
		}
		return true
	})
}

// cloned returns a copy of p that shares nothing that its caller may change.
func cloned(p *store.Plan) *store.Plan {
	c := *p
	c.Sets = slices.Clone(p.Sets)
	for i := range c.Sets {
		rules := slices.Clone(p.Sets[i].Rules)
		for j := range rules {
			rules[j].Subject = bytes.Clone(rules[j].Subject)
		}
		c.Sets[i].Rules = rules
	}
	return &c
}
