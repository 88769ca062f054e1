package rescue

import (
	"context"
	"time"

	"github.com/koalagate/koalagate/internal/store"
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
	for i := range charged {
		charged[i].debt.sent = 0
	}
	d.book(charged, attempt, plan)
}

// next returns a plan that charges some of the debts, and those debts.
func (d *debts) next() (*store.Plan, []lent) {
	d.mu.Lock()
	defer d.mu.Unlock()
	plan := &store.Plan{Op: store.Update}
	var charged []lent
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
		charged = append(charged, lent{debt: one, set: len(plan.Sets), hits: one.sent})
		plan.Sets = append(plan.Sets, store.Set{Rules: []store.Rule{rule}})
		if len(charged) == maxCharges {
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
		if now.Sub(one.turn) < flightTime {
			continue
		}
		if one.older > 0 {
			d.dropped.Store(int64(now.Sub(d.base))) // before it shows in size
		}
		one.older, one.paid, one.turn = one.paid, 0, now
		if one.total() == 0 {
			delete(d.entries, key)
			d.size.Add(-1)
		}
	}
	return len(d.entries) > 0
}

// outlived reports whether a call that began then may have been answered before Redis
// counted hits that are dropped by now.
func (d *debts) outlived(begun time.Time) bool {
	return int64(begun.Sub(d.base)) < d.dropped.Load() && time.Since(begun) >= flightTime
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
