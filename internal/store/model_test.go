package store_test

import (
	"math/big"
	"slices"
	"time"

	"github.com/koalagate/koalagate/internal/store"
)

// model answers plans as section 5 of the rule language reads, in the slowest
// way that is plainly right: it keeps hits as they came, walks over copies of
// everything, lets the hits of a base rule come one by one, and does the sums
// of token buckets in fractions. It has nothing in common with the stores.
type model struct {
	tallies map[tallyName]tally
}

type tallyName struct {
	subject string
	number  int64
	method  store.Method
}

// tally is what was counted for a rule and a subject.
type tally struct {
	hits   []hits // count: of the window; base: of today; leak: of the time that slides
	closes int64  // count, base: when that window closes; leak: when the newest hit is out
	second []hits // base: of the second window
	until  int64  // base: when that one closes
	bucket level  // token
}

// hits are some that were counted at once.
type hits struct{ at, n int64 }

// level is what is missing in a bucket, in tokens, at an instant, by a rule of
// that time; and when it is full by that rule.
type level struct {
	missing        *big.Rat // nil is 0
	at, time, full int64
}

func newModel() *model { return &model{map[tallyName]tally{}} }

// evaluate answers a plan.
func (m *model) evaluate(p *store.Plan) []store.Answer {
	b := question{model: m, p: p, now: p.Now, dayEnd: nextDay(p.Zone, p.Now)}
	if p.Op != store.Take && p.Op != store.CompleteTake {
		answers := make([]store.Answer, len(p.Sets))
		for i := range p.Sets {
			answers[i] = b.carryOut(&p.Sets[i])
		}
		return answers
	}
	before := m.copy()
	answers, refused := make([]store.Answer, len(p.Sets)), make([]bool, len(p.Sets))
	for i := range p.Sets {
		answers[i], refused[i] = b.take(&p.Sets[i])
	}
	if !slices.Contains(refused, true) {
		return answers
	}
	m.tallies = before
	for i := range p.Sets {
		if !refused[i] {
			answers[i] = b.seenAfterUndo(&p.Sets[i])
		}
	}
	return answers
}

func (m *model) copy() map[tallyName]tally {
	c := make(map[tallyName]tally, len(m.tallies))
	for name, t := range m.tallies {
		t.hits, t.second = slices.Clone(t.hits), slices.Clone(t.second)
		c[name] = t // fractions are never changed in place
	}
	return c
}

// question is a plan being answered.
type question struct {
	*model
	p           *store.Plan
	now, dayEnd int64
}

func (b *question) carryOut(s *store.Set) store.Answer {
	switch b.p.Op {
	case store.Browse:
		a, _ := b.walk(s)
		return b.report(s, a)
	case store.Complete:
		return b.report(s, b.all(s))
	case store.Update:
		b.count(s.Rules, nil)
	case store.Refund:
		b.giveBack(s)
	case store.Reset:
		for i := range s.Rules {
			delete(b.tallies, nameOf(&s.Rules[i]))
		}
	}
	return b.report(s, nothing())
}

// take decides a set, and counts it if it is let through.
func (b *question) take(s *store.Set) (a store.Answer, refused bool) {
	if s.Refund {
		b.giveBack(s)
		return b.report(s, nothing()), false
	}
	allows, walked := s.Allows, s.Rules
	if b.p.Op == store.Take {
		a, walked = b.walk(s)
		if a.Decider >= 0 {
			allows = s.Rules[a.Decider].Allows
		}
	} else if a = b.all(s); a.Decider >= 0 {
		allows = false
	}
	if allows {
		b.count(walked, a.Refusals)
	}
	return b.report(s, a), !allows
}

// seenAfterUndo is what a set that was let through is told when another one is
// refused.
func (b *question) seenAfterUndo(s *store.Set) store.Answer {
	switch {
	case s.Refund:
		return b.report(s, nothing())
	case b.p.Op == store.Take:
		a, _ := b.walk(s)
		return b.report(s, a)
	}
	return b.report(s, b.all(s))
}

func nothing() store.Answer { return store.Answer{Decider: -1, Reporter: -1, Retry: -1} }

// walk goes through the rules in order; the first in force that refuses the
// weight decides. Above it are the rules that a take counts on.
func (b *question) walk(s *store.Set) (store.Answer, []store.Rule) {
	a := nothing()
	for i := range s.Rules {
		if v := b.look(&s.Rules[i]); v.admits {
			continue
		} else if !s.Rules[i].Shadow {
			a.Decider = i
			v.tell(&a, i)
			a.Retry = v.retry
			return a, s.Rules[:i]
		}
		a.Refusals = append(a.Refusals, i)
	}
	return a, s.Rules
}

// all tells of every rule that refuses.
func (b *question) all(s *store.Set) store.Answer {
	a, _ := b.walk(s)
	a.Refusals = nil
	for i := range s.Rules {
		if !b.look(&s.Rules[i]).admits {
			a.Refusals = append(a.Refusals, i)
		}
	}
	return a
}

// report tells, where no rule decided, of the rule in force with the least
// remaining, the first among equals.
func (b *question) report(s *store.Set, a store.Answer) store.Answer {
	if a.Decider >= 0 {
		return a
	}
	one := b.p.Op == store.Peek || b.p.Op == store.Reset
	for i := range s.Rules {
		v := b.look(&s.Rules[i])
		if s.Rules[i].Shadow && !one || a.Reporter >= 0 && v.remaining >= a.Remaining {
			continue
		}
		v.tell(&a, i)
		if one {
			a.Hits = v.hits
		}
	}
	return a
}

func (b *question) count(rules []store.Rule, but []int) {
	for i := range rules {
		if r := &rules[i]; r.Weight > 0 && !slices.Contains(but, i) {
			t := b.tallies[nameOf(r)]
			t.add(r, b.now, b.dayEnd)
			b.tallies[nameOf(r)] = t
		}
	}
}

func (b *question) giveBack(s *store.Set) {
	for i := range s.Rules {
		if r := &s.Rules[i]; r.Weight > 0 {
			t := b.tallies[nameOf(r)]
			t.refund(r, b.now)
			b.tallies[nameOf(r)] = t
		}
	}
}

func (b *question) look(r *store.Rule) view {
	t := b.tallies[nameOf(r)]
	return t.look(r, b.now, b.dayEnd)
}

func nameOf(r *store.Rule) tallyName { return tallyName{string(r.Subject), r.Return, r.Method} }

// nextDay is the first instant after now whose local date is another. In the
// zones of today days begin, and clocks change, on quarters of an hour.
func nextDay(zone *time.Location, now int64) int64 {
	const quarter = 15 * 60 * 1000
	year, month, day := time.UnixMilli(now).In(zone).Date()
	for at := now - now%quarter + quarter; ; at += quarter {
		if y, m, d := time.UnixMilli(at).In(zone).Date(); y != year || m != month || d != day {
			return at
		}
	}
}
