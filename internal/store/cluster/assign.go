package cluster

import (
	"context"
	"slices"
	"sync"

	"github.com/koalagate/koalagate/internal/store"
)

var _ store.Assigner = (*Store)(nil)

// usage is the part of a usage whose counters lie in one slot.
type usage struct {
	store.Usage
	slot  uint16
	rules []int // the indices of its rules in the whole
	got   store.Assignment
	err   error
}

// Assign assigns shares of limits, with one step in each slot of their counters. The holder
// gets the least of what the slots give, and what they reserved beyond that is given back: all
// if it gets nothing, unless it keeps its bucket. Then the others may have lowered the rate of that:
// what it admits above is a debt, which they get back from later refill.
func (s *Store) Assign(ctx context.Context, u *store.Usage) (store.Assignment, error) {
	if err := u.Validate(); err != nil {
		return store.Assignment{}, err
	}
	parts := s.splitUsage(u)
	each(parts, func(p *usage) { p.got, p.err = s.evaluator.Assign(ctx, s.nodes, p.slot, &p.Usage) })
	for _, p := range parts {
		if p.err != nil {
			return store.Assignment{}, p.err
		}
		p.got.Rule = p.rules[p.got.Rule]
	}
	a := least(parts)
	rate, burst := a.Rate, a.Burst
	if !a.Send {
		rate, burst = 0, 0
	}
	each(parts, func(p *usage) {
		if p.got.Send && (p.got.Rate > rate || p.got.Burst > burst) {
			// If it fails, more than needed is reserved until the share ends.
			_ = s.evaluator.Reduce(ctx, s.nodes, p.slot, &p.Usage, rate, burst)
		}
	})
	return a, nil
}

// TryAssign is Assign, and also returns the evidence of the attempt about the Cluster.
func (s *Store) TryAssign(ctx context.Context, u *store.Usage) (store.Assignment, store.Attempt, error) {
	a, err := s.Assign(ctx, u)
	return a, corrected(store.Attempt{Health: s.evaluator.Judge(err, s.evaluator.Budget())}, err), err
}

// splitUsage returns a part for each slot.
func (s *Store) splitUsage(u *store.Usage) (parts []*usage) {
	for i := range u.Rules {
		slot := slotOf(s.evaluator.AppendKey(nil, u.Rules[i].Subject))
		at := slices.IndexFunc(parts, func(p *usage) bool { return p.slot == slot })
		if at < 0 {
			at = len(parts)
			parts = append(parts, &usage{Usage: *u, slot: slot})
			parts[at].Rules = nil
		}
		parts[at].Rules, parts[at].rules = append(parts[at].Rules, u.Rules[i]), append(parts[at].rules, i)
	}
	return parts
}

// each calls f for all parts at the same time.
func each(parts []*usage, f func(*usage)) {
	var rest sync.WaitGroup
	for _, p := range parts[1:] {
		rest.Go(func() { f(p) })
	}
	f(parts[0])
	rest.Wait()
}

// least returns the least of what the slots give or let the holder keep.
func least(parts []*usage) store.Assignment {
	a := parts[0].got
	for _, p := range parts[1:] {
		one := p.got
		debt, forfeited, send, now := max(a.Debt, one.Debt), max(a.Forfeited, one.Forfeited), a.Send || one.Send, max(a.Now, one.Now)
		switch {
		case one.Lasts == 0 && (a.Lasts > 0 || one.Reason == store.BannedNow && a.Reason != store.BannedNow):
			a = one
		case a.Lasts == 0:
		default:
			rate, burst, lasts := min(a.Rate, one.Rate), min(a.Burst, one.Burst), min(a.Lasts, one.Lasts)
			if one.Rate < a.Rate {
				a = one
			}
			a.Rate, a.Burst, a.Lasts = rate, burst, lasts
		}
		a.Debt, a.Forfeited, a.Send, a.Now = debt, forfeited, send && a.Lasts > 0, now
	}
	if a.Send {
		a.Reason = store.Assigned
	}
	return a
}
