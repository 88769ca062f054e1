package memory

import (
	"github.com/koalagate/koalagate/internal/method"
	"github.com/koalagate/koalagate/internal/store"
)

// decide answers every set of the plan.
func (s *step) decide(a *store.Answers) {
	if s.plan.Op == store.Take || s.plan.Op == store.CompleteTake {
		s.take(a)
		return
	}
	for i := range s.plan.Sets {
		s.answer(i, &a.Sets[i])
	}
	if s.wait > 0 && s.plan.Op == store.Browse && s.plan.Allowed(a) {
		a.Wait, a.Waiter = s.wait, s.waiter
	}
}

// answer evaluates one set of a plan that decides each set by itself.
func (s *step) answer(i int, a *store.Answer) {
	set := &s.plan.Sets[i]
	switch s.plan.Op {
	case store.Browse:
		s.walk(i, a)
	case store.Complete:
		s.complete(i, a)
	case store.Update:
		s.count(i, len(set.Rules), nil)
	case store.Refund:
		s.refund(i)
	case store.Reset:
		for j := range set.Rules {
			p := &s.places[s.first[i]+j]
			switch c := s.own(i, j).(type) {
			case *holds:
				c.chunks, c.sum = nil, 0 // receipts may refer to it: they hold nothing any more
			case lender:
				if len(c.lent(s.at.now)) > 0 {
					fresh := c.clone().(lender) // records of takes refer to c, and are not given back
					fresh.reset(&set.Rules[j], &s.at)
					p.shard.cell(p.subject, &set.Rules[j]).counter = fresh
					p.counter = fresh
					continue
				}
			}
			p.shard.forget(p.subject, &set.Rules[j])
			p.counter = nil
		}
	}
	s.report(i, a)
}

// take evaluates a plan that counts everything if every set allows.
func (s *step) take(a *store.Answers) {
	refused := false
	for i := range s.plan.Sets {
		if !s.takeSet(i, &a.Sets[i]) {
			refused = true
		}
	}
	if !refused {
		if s.wait > 0 {
			a.Wait, a.Waiter = s.wait, s.waiter
		}
		if s.wait > 0 || s.parts > 0 {
			s.remember(a)
		}
		return
	}
	s.undo()
	s.again = true
	for i := range s.plan.Sets {
		if s.allows(i, &a.Sets[i]) {
			a.Sets[i].Clear()
			s.answerAgain(i, &a.Sets[i])
		}
	}
}

// takeSet decides one set, counts it if it allows, and reports whether it does.
func (s *step) takeSet(i int, a *store.Answer) bool {
	set := &s.plan.Sets[i]
	if set.Refund {
		s.refund(i)
		s.report(i, a)
		return true
	}
	walked := len(set.Rules)
	if s.plan.Op == store.Take {
		walked = s.walk(i, a)
	} else {
		s.complete(i, a)
	}
	allows := s.allows(i, a)
	if s.lasts {
		s.recordLasting(i, a)
	}
	if allows {
		s.count(i, walked, a.Refusals)
		if s.settles && !s.at.full {
			s.addParts(i, walked, a)
		}
	}
	s.report(i, a)
	return allows
}

// answerAgain answers a set that allowed and was undone because another refused.
func (s *step) answerAgain(i int, a *store.Answer) {
	switch {
	case s.plan.Sets[i].Refund:
	case s.plan.Op == store.Take:
		s.walk(i, a)
	default:
		s.complete(i, a)
	}
	s.report(i, a)
}

// walk reads the set's rules in order up to the one that decides, and returns the
// number of rules above it: all of them if none decides.
func (s *step) walk(i int, a *store.Answer) int {
	rules := s.plan.Sets[i].Rules
	for j := range rules {
		got := s.read(i, j)
		switch {
		case got.admits:
			if got.wait > s.wait && !rules[j].Shadow {
				s.wait, s.waiter = got.wait, [2]int{i, j}
			}
		case s.admitted(i, j):
		case !rules[j].Enforced():
			a.Refusals = append(a.Refusals, j)
		default:
			decide(a, j, &rules[j], got)
			return j
		}
	}
	return len(rules)
}

// complete reads all rules of the set. The decider is the first that refuses and
// is enforced, as in walk.
func (s *step) complete(i int, a *store.Answer) {
	rules := s.plan.Sets[i].Rules
	for j := range rules {
		got := s.read(i, j)
		if got.admits || s.admitted(i, j) {
			if got.wait > s.wait && a.Decider < 0 && !rules[j].Shadow {
				s.wait, s.waiter = got.wait, [2]int{i, j}
			}
			continue
		}
		a.Refusals = append(a.Refusals, j)
		if a.Decider < 0 && rules[j].Enforced() {
			decide(a, j, &rules[j], got)
		}
	}
}

// allows reports whether the answer allows the set. An answer of CompleteTake with
// a decider never does, whatever that rule's Allows.
func (s *step) allows(i int, a *store.Answer) bool {
	set := &s.plan.Sets[i]
	switch {
	case set.Refund:
		return true
	case s.plan.InRescue && reachesStrict(set, a.Decider):
		return false
	case a.Decider < 0:
		return set.Allows
	case s.plan.Op == store.Take:
		return set.Rules[a.Decider].Allows
	}
	return false
}

// report reports the rule with the least remaining if none decided.
func (s *step) report(i int, a *store.Answer) {
	if a.Decider >= 0 {
		return
	}
	single := s.plan.Op == store.Peek || s.plan.Op == store.Reset
	rules := s.plan.Sets[i].Rules
	for j := range rules {
		if rules[j].Shadow && !single {
			continue
		}
		got := s.read(i, j)
		if a.Reporter >= 0 && got.remaining >= a.Remaining {
			continue
		}
		report(a, j, got)
		if single {
			a.Hits = got.hits
		}
	}
}

// count counts the first n rules of the set except those in refusing, which is
// sorted, unless they are marked, and those with overdraft that recordLasting has counted.
func (s *step) count(i, n int, refusing []int) {
	rules := s.plan.Sets[i].Rules[:n]
	for j := range rules {
		if len(refusing) > 0 && refusing[0] == j {
			refusing = refusing[1:]
			if !s.passes(&rules[j]) {
				continue
			}
		}
		if rules[j].Outcome || s.at.update && method.Of(rules[j].Method).Holds {
			continue
		}
		if rules[j].Weight > 0 && (!rules[j].Overdraft || s.at.update) {
			s.add(i, j)
		}
	}
}

// passes reports whether an allowed take counts a weight that the rule refuses. Without room
// for its receipt, a hold would last until it runs out.
func (s *step) passes(r *store.Rule) bool {
	return r.Marked && (!s.at.full || !method.Of(r.Method).Holds)
}

// add counts the weight of rule j of set i.
func (s *step) add(i, j int) counter {
	c, r := s.change(i, j), &s.plan.Sets[i].Rules[j]
	if s.records {
		s.record(&s.places[s.first[i]+j], r, c)
	} else {
		c.add(r, &s.at)
	}
	return c
}

// refund gives back the weights of the set.
func (s *step) refund(i int) {
	rules := s.plan.Sets[i].Rules
	for j := range rules {
		if rules[j].Outcome || method.Of(rules[j].Method).Holds {
			continue
		}
		if rules[j].Weight > 0 && s.own(i, j) != nil {
			s.change(i, j).refund(&rules[j], &s.at)
		}
	}
}

// decide records that rule j decided.
func decide(a *store.Answer, j int, r *store.Rule, got *reading) {
	a.Decider = j
	report(a, j, got)
	a.Retry = got.retry
	if r.Overdraft {
		a.Hits = got.hits
	}
}

// report records that the numbers belong to rule j.
func report(a *store.Answer, j int, got *reading) {
	a.Reporter = j
	a.Limit, a.Remaining, a.Reset = got.limit, got.remaining, got.reset
	a.Daily, a.Banned = got.daily, got.banned
}

// reachesStrict reports whether a walk up to the decider, or over all rules for
// -1, reached a strict rule that is enforced.
func reachesStrict(set *store.Set, decider int) bool {
	walked := set.Rules
	if decider >= 0 {
		walked = walked[:decider+1]
	}
	for j := range walked {
		if walked[j].Strict && walked[j].Enforced() {
			return true
		}
	}
	return false
}
