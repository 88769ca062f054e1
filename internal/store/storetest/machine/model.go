// Package machine compares stores with a reference model.
//
// The Model is written from the text of the language alone and shares nothing
// with the stores. The tests of every store evaluate the same random plans on
// the store and on the model, and compare all answers: Compare one plan at a time,
// other tests with their own plans from Plan and Rule.
package machine

import (
	"math/big"
	"slices"
	"time"

	"github.com/koalagate/koalagate/internal/store"
)

// Model answers plans as section 5 of the rule language specifies, in a slow way that
// is obviously correct: it keeps every hit, copies all its state, counts
// the hits of a base rule one by one, and computes token buckets in fractions.
type Model struct {
	tallies map[tallyName]tally
}

type tallyName struct {
	subject string
	number  int64
	method  store.Method
}

// tally holds what was counted for a rule and a subject.
type tally struct {
	hits   []hits // count: of the window; base: of today; leak: of the sliding time
	closes int64  // count, base: end of that window; leak: when the newest hit leaves
	second []hits // base: of the second window
	until  int64  // base: end of that one
	bucket level  // token
}

// hits are n hits that were counted at the same instant.
type hits struct{ at, n int64 }

// level is the number of missing tokens of a bucket at an instant, for a rule
// with that time, and when the bucket is full for that rule.
type level struct {
	missing        *big.Rat // nil is 0
	at, time, full int64
}

// NewModel returns a model that has counted nothing.
func NewModel() *Model { return &Model{map[tallyName]tally{}} }

// Evaluate answers a plan.
func (m *Model) Evaluate(p *store.Plan) []store.Answer {
	b := evaluation{Model: m, p: p, now: p.Now, dayEnd: nextDay(p.Zone, p.Now)}
	if p.Op != store.Take && p.Op != store.CompleteTake {
		answers := make([]store.Answer, len(p.Sets))
		for i := range p.Sets {
			answers[i] = b.carryOut(&p.Sets[i])
		}
		return answers
	}
	before := m.Clone()
	answers, refused := make([]store.Answer, len(p.Sets)), make([]bool, len(p.Sets))
	for i := range p.Sets {
		answers[i], refused[i] = b.take(&p.Sets[i])
	}
	if !slices.Contains(refused, true) {
		return answers
	}
	*m = *before
	for i := range p.Sets {
		if !refused[i] {
			answers[i] = b.seenAfterUndo(&p.Sets[i])
		}
	}
	return answers
}

// Clone returns a copy of the model.
func (m *Model) Clone() *Model {
	c := make(map[tallyName]tally, len(m.tallies))
	for name, t := range m.tallies {
		t.hits, t.second = slices.Clone(t.hits), slices.Clone(t.second)
		c[name] = t // fractions are never changed in place
	}
	return &Model{c}
}

// evaluation is the evaluation of one plan.
type evaluation struct {
	*Model
	p           *store.Plan
	now, dayEnd int64
}

func (b *evaluation) carryOut(s *store.Set) store.Answer {
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

// take decides a set, and counts it if it is allowed.
func (b *evaluation) take(s *store.Set) (a store.Answer, refused bool) {
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

// seenAfterUndo answers a set that was allowed after another set was refused.
func (b *evaluation) seenAfterUndo(s *store.Set) store.Answer {
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

// walk visits the rules in order; the first that refuses the weight and is no
// shadow rule decides. It returns the rules above it, on which a take counts.
func (b *evaluation) walk(s *store.Set) (store.Answer, []store.Rule) {
	a := nothing()
	for i := range s.Rules {
		if v := b.read(&s.Rules[i]); v.admits {
			continue
		} else if !s.Rules[i].Shadow {
			a.Decider = i
			v.report(&a, i)
			a.Retry = v.retry
			return a, s.Rules[:i]
		}
		a.Refusals = append(a.Refusals, i)
	}
	return a, s.Rules
}

// all reports every rule that refuses.
func (b *evaluation) all(s *store.Set) store.Answer {
	a, _ := b.walk(s)
	a.Refusals = nil
	for i := range s.Rules {
		if !b.read(&s.Rules[i]).admits {
			a.Refusals = append(a.Refusals, i)
		}
	}
	return a
}

// report adds, if no rule decided, the numbers of the rule with the least
// remaining that is no shadow rule; the first of several.
func (b *evaluation) report(s *store.Set, a store.Answer) store.Answer {
	if a.Decider >= 0 {
		return a
	}
	one := b.p.Op == store.Peek || b.p.Op == store.Reset
	for i := range s.Rules {
		v := b.read(&s.Rules[i])
		if s.Rules[i].Shadow && !one || a.Reporter >= 0 && v.remaining >= a.Remaining {
			continue
		}
		v.report(&a, i)
		if one {
			a.Hits = v.hits
		}
	}
	return a
}

func (b *evaluation) count(rules []store.Rule, but []int) {
	for i := range rules {
		if r := &rules[i]; r.Weight > 0 && !slices.Contains(but, i) {
			t := b.tallies[nameOf(r)]
			t.add(r, b.now, b.dayEnd)
			b.tallies[nameOf(r)] = t
		}
	}
}

func (b *evaluation) giveBack(s *store.Set) {
	for i := range s.Rules {
		if r := &s.Rules[i]; r.Weight > 0 {
			t := b.tallies[nameOf(r)]
			t.refund(r, b.now)
			b.tallies[nameOf(r)] = t
		}
	}
}

func (b *evaluation) read(r *store.Rule) view {
	t := b.tallies[nameOf(r)]
	return t.read(r, b.now, b.dayEnd)
}

func nameOf(r *store.Rule) tallyName { return tallyName{string(r.Subject), r.Return, r.Method} }

// nextDay returns the first instant after now whose local date differs. In
// today's time zones days begin, and clocks change, on quarters of an hour.
func nextDay(zone *time.Location, now int64) int64 {
	const quarter = 15 * 60 * 1000
	year, month, day := time.UnixMilli(now).In(zone).Date()
	for at := now - now%quarter + quarter; ; at += quarter {
		if y, m, d := time.UnixMilli(at).In(zone).Date(); y != year || m != month || d != day {
			return at
		}
	}
}
