// Package machine compares stores with a reference model.
//
// The Model is written from the text of the language alone and shares nothing
// with the stores. The tests of every store evaluate the same random plans on
// the store and on the model, and compare all answers: Compare one plan at a time,
// other tests with their own plans from Plan and Rule.
package machine

import (
	"maps"
	"slices"

	"github.com/koalagate/koalagate/internal/store"
)

// Model answers plans as section 5 of the rule language and section 7 of its second
// part specify, in a slow way that is obviously correct: it keeps every hit, copies
// all its state, counts the hits of a base rule one by one, and computes token buckets
// in fractions.
type Model struct {
	// Wait and Waiter are from the last answers.
	Wait   int64
	Waiter [2]int
	// Taken is what the last plan counted, for Cancel; nil if it does not wait.
	Taken []Taken
	// Receipt is the receipt of the last plan, nil if it has none.
	Receipt *Receipt

	tallies map[tallyName]tally
	made    int // tallies
}

type tallyName struct {
	subject string
	number  int64
	method  store.Method
}

// NewModel returns a model that has counted nothing.
func NewModel() *Model { return &Model{tallies: map[tallyName]tally{}} }

// Clone returns a copy of the model.
func (m *Model) Clone() *Model {
	c := *m
	c.tallies = maps.Clone(m.tallies) // hits and fractions are never changed in place
	return &c
}

// Evaluate answers a plan.
func (m *Model) Evaluate(p *store.Plan) []store.Answer {
	e := evaluation{Model: m, p: p, admitted: map[[2]int]bool{}}
	m.Wait, m.Waiter, m.Taken, m.Receipt = 0, [2]int{}, nil, nil
	answers := make([]store.Answer, len(p.Sets))
	if p.Op != store.Take && p.Op != store.CompleteTake {
		for i := range p.Sets {
			answers[i] = e.carryOut(i)
		}
		if p.Op == store.Browse && p.Allowed(&store.Answers{Sets: answers}) {
			m.Wait, m.Waiter = e.wait, e.waiter
		}
		return answers
	}
	before, refused := m.Clone(), make([]bool, len(p.Sets))
	for i := range p.Sets {
		answers[i], refused[i] = e.take(i)
	}
	if !slices.Contains(refused, true) {
		m.Receipt = e.receipt()
		if m.Wait, m.Waiter = e.wait, e.waiter; m.Wait > 0 || m.Receipt != nil { // which may have counted nothing
			m.Taken = append([]Taken{}, e.taken...)
		}
		return answers
	}
	// All is undone but overdrafts and bans: carry out these alone.
	m.tallies = before.tallies
	for _, carryOut := range e.lasting {
		carryOut()
	}
	for i := range p.Sets {
		if !refused[i] {
			answers[i] = e.seenAfterUndo(i)
		}
	}
	return answers
}

// evaluation is the evaluation of one plan.
type evaluation struct {
	*Model
	p        *store.Plan
	wait     int64 // the longest wait of a rule that admitted
	waiter   [2]int
	taken    []Taken
	parts    []*part
	lasting  []func()        // what a refusal does not undo
	admitted map[[2]int]bool // the rules with such that admitted, by set and rule
	again    bool            // the sets are seen again after a refusal
}

func (e *evaluation) carryOut(i int) store.Answer {
	s := &e.p.Sets[i]
	switch e.p.Op {
	case store.Browse:
		a, _ := e.walk(i)
		return e.report(i, a)
	case store.Complete:
		return e.report(i, e.all(i))
	case store.Update:
		for j := range s.Rules {
			if !s.Rules[j].Outcome && s.Rules[j].Method != store.Hold {
				e.add(&s.Rules[j])
			}
		}
	case store.Refund:
		e.giveBack(s)
	case store.Reset:
		for j := range s.Rules {
			delete(e.tallies, nameOf(&s.Rules[j]))
		}
	}
	return e.report(i, nothing())
}

// take decides a set, and counts it if it is allowed.
func (e *evaluation) take(i int) (a store.Answer, refused bool) {
	s := &e.p.Sets[i]
	if s.Refund {
		e.giveBack(s)
		return e.report(i, nothing()), false
	}
	allows, reached := s.Allows, len(s.Rules)
	if e.p.Op == store.Take {
		a, reached = e.walk(i)
		if a.Decider >= 0 {
			allows = s.Rules[a.Decider].Allows
		}
	} else if a = e.all(i); a.Decider >= 0 {
		allows = false
	}
	e.recordLasting(i, &a)
	for j := range s.Rules[:reached] {
		if allows && !s.Rules[j].Overdraft && !s.Rules[j].Outcome && passes(s, j, &a) {
			e.add(&s.Rules[j])
		}
	}
	if allows {
		e.addParts(i, reached, &a)
	}
	return e.report(i, a), !allows
}

// passes reports whether a take passes a rule that its walk reached: the rule admitted, or
// it is marked.
func passes(s *store.Set, j int, a *store.Answer) bool {
	return s.Rules[j].Marked || !slices.Contains(a.Refusals, j)
}

// recordLasting records what stays whatever the verdict, on the rules of a take's walk: the
// weight of overdraft rules, and the bans that refusals open.
func (e *evaluation) recordLasting(i int, a *store.Answer) {
	rules := e.p.Sets[i].Rules
	for j := range rules {
		r := &rules[j]
		if a.Decider >= 0 && j > a.Decider {
			break
		}
		refuses := j == a.Decider || slices.Contains(a.Refusals, j)
		e.admitted[[2]int{i, j}] = !refuses && (r.Overdraft || r.Ban > 0)
		do := func() {}
		switch {
		case refuses && r.Ban > 0 && r.Weight > 0 && needed(r) <= r.Count:
			do = func() { e.ban(r) }
		case r.Overdraft && !r.Outcome:
			do = func() { e.add(r) }
		}
		do()
		e.lasting = append(e.lasting, do)
	}
	if a.Decider >= 0 && (rules[a.Decider].Overdraft || rules[a.Decider].Ban > 0) {
		decide(a, a.Decider, &rules[a.Decider], e.read(&rules[a.Decider]))
	}
}

// seenAfterUndo answers a set that was allowed after another set was refused.
func (e *evaluation) seenAfterUndo(i int) store.Answer {
	e.again = true
	switch {
	case e.p.Sets[i].Refund:
		return e.report(i, nothing())
	case e.p.Op == store.Take:
		a, _ := e.walk(i)
		return e.report(i, a)
	}
	return e.report(i, e.all(i))
}

func nothing() store.Answer { return store.Answer{Decider: -1, Reporter: -1, Retry: -1} }

// decide makes rule j the decider.
func decide(a *store.Answer, j int, r *store.Rule, v view) {
	a.Decider, a.Retry = j, v.retry
	if r.Overdraft {
		a.Hits = v.hits
	}
	v.report(a, j)
}

// admits returns the view of rule j of set i, and whether the rule admits.
func (e *evaluation) admits(i, j int) (view, bool) {
	v := e.read(&e.p.Sets[i].Rules[j])
	return v, v.admits || e.again && e.admitted[[2]int{i, j}]
}

// walk visits the rules in order; the first that refuses the weight and is neither a
// shadow rule nor marked decides. It returns the number of rules above it, on which a take
// counts.
func (e *evaluation) walk(i int) (store.Answer, int) {
	a, rules := nothing(), e.p.Sets[i].Rules
	for j := range rules {
		v, admits := e.admits(i, j)
		switch {
		case admits && v.wait > e.wait && !rules[j].Shadow:
			e.wait, e.waiter = v.wait, [2]int{i, j}
		case admits:
		case !rules[j].Shadow && !rules[j].Marked:
			decide(&a, j, &rules[j], v)
			return a, j
		default:
			a.Refusals = append(a.Refusals, j)
		}
	}
	return a, len(rules)
}

// all reports every rule that refuses.
func (e *evaluation) all(i int) store.Answer {
	a, _ := e.walk(i)
	a.Refusals = nil
	for j := range e.p.Sets[i].Rules {
		if _, admits := e.admits(i, j); !admits {
			a.Refusals = append(a.Refusals, j)
		}
	}
	return a
}

// report adds, if no rule decided, the numbers of the rule with the least
// remaining that is no shadow rule; the first of several.
func (e *evaluation) report(i int, a store.Answer) store.Answer {
	if a.Decider >= 0 {
		return a
	}
	one, rules := e.p.Op == store.Peek || e.p.Op == store.Reset, e.p.Sets[i].Rules
	for j := range rules {
		v := e.read(&rules[j])
		if rules[j].Shadow && !one || a.Reporter >= 0 && v.remaining >= a.Remaining {
			continue
		}
		v.report(&a, j)
		if one {
			a.Hits = v.hits
		}
	}
	return a
}
