package cluster

import (
	"context"
	"slices"

	"github.com/koalagate/koalagate/internal/store"
)

// ask fills a with the answers that a take would have now, and reports whether it is refused,
// in which case it records what the refusal leaves. Otherwise nothing is written.
//
// Each slot decides the sets in their order, so that a set sees what the sets before it count
// and leave. Which rules do so depends on deciders in other slots. If a set has one, the slots
// are therefore asked again about the sets behind it: once per set at most.
func (s *Store) ask(ctx context.Context, p *store.Plan, a *store.Answers) (refused bool, err error) {
	a.Reset(len(p.Sets))
	var answered, failed []*part
	for round := range p.Sets {
		before := decidersOf(a)
		parts := s.split(p, p.Op, reached(p, a))
		for _, one := range parts {
			one.ask(p, a)
		}
		err = s.runParts(ctx, parts)
		answered, failed = answeredOf(parts)
		for i := range p.Sets {
			merge(a, i, answered, p.Op, (*part).answersAfter)
		}
		if err != nil || p.Op != store.Take || round == len(p.Sets)-1 || !askAgain(p, before, a) {
			break
		}
	}
	switch {
	case err != nil && !isRefused(p, a, failed):
		return false, err
	case err == nil && p.Allowed(a):
		return false, nil
	}
	if err := s.recordLasting(ctx, p, a, func(uint16) bool { return true }); err != nil {
		return false, err
	}
	s.reportAllowed(ctx, p, a, answered)
	s.reportRefunds(ctx, p, a)
	return true, nil
}

// reportAllowed answers the allowed sets of a refused take as after all is undone. If the
// decider of a set admits then, the rules below it are asked, too.
func (s *Store) reportAllowed(ctx context.Context, p *store.Plan, a *store.Answers, answered []*part) {
	before := decidersOf(a)
	open := make([]bool, len(p.Sets))
	for i := range p.Sets {
		if allows(p, a, i) {
			merge(a, i, answered, p.Op, (*part).answersBefore)
			open[i] = a.Sets[i].Decider < 0 && before[i] >= 0
		}
	}
	rest := s.split(p, store.Browse, func(i, j int) bool { return open[i] && j > before[i] })
	if len(rest) == 0 || s.runParts(ctx, rest) != nil {
		return
	}
	all := slices.Concat(answered, rest)
	for i := range p.Sets {
		if open[i] {
			merge(a, i, all, store.Browse, func(p *part) *store.Answers {
				if p.asks {
					return p.answersBefore()
				}
				return p.answersAfter()
			})
		}
	}
}

// decidersOf returns the indices of the rules that decided the sets.
func decidersOf(a *store.Answers) []int {
	list := make([]int, len(a.Sets))
	for i := range a.Sets {
		list[i] = a.Sets[i].Decider
	}
	return list
}

// askAgain reports whether a set has another decider than the slots believed, and later sets
// may see that. Then it clears the answers to these: all of their rules are asked again.
func askAgain(p *store.Plan, before []int, a *store.Answers) bool {
	again, later := false, false
	for i := range p.Sets {
		if later {
			again = again || !p.Sets[i].Refund && len(p.Sets[i].Rules) > 0
			a.Sets[i].Clear()
		}
		later = later || a.Sets[i].Decider != before[i]
	}
	return again
}

// reached selects the rules up to the deciders; a complete take asks all rules.
func reached(p *store.Plan, a *store.Answers) selection {
	return func(i, j int) bool {
		d := a.Sets[i].Decider
		return !p.Sets[i].Refund && (p.Op != store.Take || d < 0 || j <= d)
	}
}

// allows reports whether the answers to a take allow set i.
func allows(p *store.Plan, a *store.Answers, i int) bool {
	set, d := &p.Sets[i], a.Sets[i].Decider
	switch {
	case set.Refund:
		return true
	case d < 0:
		return set.Allows
	}
	return p.Op == store.Take && set.Rules[d].Allows
}

// ask makes the part ask: it follows the answers so far, knows all rules that allow, is
// refused and leaves nothing.
func (p *part) ask(whole *store.Plan, a *store.Answers) {
	p.follow(whole, a)
	for k, i := range p.sets {
		for n, j := range p.rules[k] {
			p.plan.Sets[k].Rules[n].Allows = whole.Sets[i].Rules[j].Allows
		}
	}
	p.refuse()
	p.asks, p.tentative = true, true
}

// follow makes the part of a take follow the answers so far: its sets allow as the answers
// do, and so do their deciders.
func (p *part) follow(whole *store.Plan, a *store.Answers) {
	for k, i := range p.sets {
		set := &p.plan.Sets[k]
		set.Allows = allows(whole, a, i)
		for n, j := range p.rules[k] {
			set.Rules[n].Allows = j == a.Sets[i].Decider && whole.Sets[i].Rules[j].Allows
		}
	}
}

// refuse makes the part be refused, by a set behind those of sets.
func (p *part) refuse() { p.plan.Sets = append(p.plan.Sets, store.Set{}) }

// isRefused reports whether a take is refused although some parts failed: nothing that they
// could answer would admit it.
func isRefused(p *store.Plan, a *store.Answers, failed []*part) bool {
	for i := range p.Sets {
		if d := a.Sets[i].Decider; d >= 0 && (p.Op == store.CompleteTake || !p.Sets[i].Rules[d].Allows && !mayAllow(p, failed, i, d)) {
			return true
		}
	}
	return false
}

// mayAllow reports whether one of the parts has a rule of set i that allows and
// precedes rule d.
func mayAllow(p *store.Plan, parts []*part, i, d int) bool {
	return slices.ContainsFunc(parts, func(one *part) bool {
		k := slices.Index(one.sets, i)
		return k >= 0 && slices.ContainsFunc(one.rules[k], func(j int) bool { return j < d && p.Sets[i].Rules[j].Allows })
	})
}
