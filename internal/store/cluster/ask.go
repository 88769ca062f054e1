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
// and leave. Which rules do so depends on deciders in other slots. The slots are therefore
// asked again, about the rules up to the deciders that they found, until these stay. After n
// rounds they do in the first n sets, unless other callers change the counters meanwhile.
func (s *Store) ask(ctx context.Context, p *store.Plan, a *store.Answers) (refused bool, err error) {
	a.Reset(len(p.Sets))
	var answered, failed []*part
	for range p.Sets {
		before := decidersOf(a)
		parts := s.split(p, p.Op, reached(p, a))
		for _, one := range parts {
			one.asks = true
			one.follow(p, a)
		}
		err = s.runParts(ctx, parts)
		answered, failed = answeredOf(parts)
		for i := range p.Sets {
			merge(a, i, answered, p.Op, (*part).answersAfter)
		}
		if err != nil || p.Op != store.Take || !concerns(p, before, a) {
			break
		}
	}
	switch {
	case err != nil && !isRefused(p, a, failed):
		return false, err
	case err == nil && p.Allowed(a):
		return false, nil
	}
	if err := s.recordLasting(ctx, p, a, everyRule); err != nil {
		return false, err
	}
	for i := range p.Sets {
		if allows(p, a, i) {
			merge(a, i, answered, p.Op, (*part).answersBefore)
		}
	}
	s.reportRefunds(ctx, p, a)
	return true, nil
}

// decidersOf returns the indices of the rules that decided the sets.
func decidersOf(a *store.Answers) []int {
	list := make([]int, len(a.Sets))
	for i := range a.Sets {
		list[i] = a.Sets[i].Decider
	}
	return list
}

// concerns reports whether a set has another decider than before, and a later set may see
// that.
func concerns(p *store.Plan, before []int, a *store.Answers) bool {
	moved := false
	for i := range p.Sets {
		if moved && !p.Sets[i].Refund && len(p.Sets[i].Rules) > 0 {
			return true
		}
		moved = moved || a.Sets[i].Decider != before[i]
	}
	return false
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

// follow makes the part of a take follow the answers so far: its sets allow as the answers
// do, and their deciders are there. Refused, it leaves nothing. One that asks knows all
// rules that allow, and is refused by a set of its own.
func (p *part) follow(whole *store.Plan, a *store.Answers) {
	p.tentative = true
	for k, i := range p.sets {
		set := &p.plan.Sets[k]
		set.Allows = allows(whole, a, i)
		for n, j := range p.rules[k] {
			set.Rules[n].Allows = whole.Sets[i].Rules[j].Allows && (p.asks || j == a.Sets[i].Decider)
		}
	}
	if p.asks {
		p.plan.Sets = append(p.plan.Sets, store.Set{})
	}
}

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
