package rescue

import (
	"bytes"
	"errors"
	"slices"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// flight is a call on its way to Redis, or back, whose caller did not wait for its
// answer. A process that is short of CPU may write it to its connection seconds later,
// or too late to write it at all.
type flight struct {
	late store.Late
	plan *store.Plan
	list []lent
}

// lent is the hits of a rule of a plan that are owed.
type lent struct {
	debt      *debt
	set, rule int
	hits      int64
}

// book adds the hits of a call to what is owed, by what is known of the call. It keeps
// p if the call is late. It requires d.mu.
func (d *debts) book(list []lent, attempt store.Attempt, p *store.Plan) {
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
			if errors.Is(err, redisconn.ErrUnsent) || err == nil && f.omits(l, &a) {
				l.debt.owed += l.hits
			} else {
				l.debt.paid += l.hits
			}
		}
		return true
	})
}

// omits reports whether the answers of Redis show that it counted nothing on a rule,
// because another rule refused the call. A rule that refused the call itself is not
// omitted: its counter is full, and answers about it yield to the debt anyway.
func (f *flight) omits(l lent, a *store.Answers) bool {
	set, one := &f.plan.Sets[l.set], &a.Sets[l.set]
	if f.plan.Op == store.Update || records(set, one, l.rule, f.plan.Allowed(a)) {
		return false
	}
	return l.rule != one.Decider && !slices.Contains(one.Refusals, l.rule)
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
