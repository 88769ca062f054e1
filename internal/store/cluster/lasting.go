package cluster

import (
	"context"
	"slices"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
)

// isLasting reports whether a take writes to rule j of a set although the rule or
// another one refuses: the weight of an overdraft, or a ban.
func isLasting(set *store.Set, a *store.Answer, j int) bool {
	r := &set.Rules[j]
	if r.Weight == 0 || set.Refund || a.Decider >= 0 && j > a.Decider {
		return false
	}
	return r.Overdraft || r.Ban > 0 && refusesIn(a, j)
}

// hasLastingBelow reports whether a set has a rule with an overdraft or a ban below another
// rule that may decide.
func hasLastingBelow(set *store.Set) bool {
	decides := false
	for j := range set.Rules {
		if r := &set.Rules[j]; decides && (r.Overdraft || r.Ban > 0) {
			return true
		}
		decides = decides || set.Rules[j].Enforced()
	}
	return false
}

// refusesIn reports whether rule j refuses in an answer.
func refusesIn(a *store.Answer, j int) bool { return j == a.Decider || slices.Contains(a.Refusals, j) }

// recordLasting records the overdrafts and opens the bans of a refused take in the selected
// slots, whose parts have left nothing: they only asked, or refused. The sets are decided
// there in their order once more, because a ban may depend on what earlier sets counted.
func (s *Store) recordLasting(ctx context.Context, p *store.Plan, a *store.Answers, selected func(slot uint16) bool) error {
	parts := s.split(p, p.Op, func(i, j int) bool {
		d := a.Sets[i].Decider
		return !p.Sets[i].Refund && (d < 0 || j <= d)
	})
	parts = slices.DeleteFunc(parts, func(one *part) bool { return !selected(one.slot) || !one.hasLasting(p, a) })
	for _, one := range parts {
		one.follow(p, a)
		one.refuse()
		one.final = true
	}
	return s.runParts(ctx, parts)
}

// hasLasting reports whether a take writes to a rule of the part although a rule refuses.
func (p *part) hasLasting(whole *store.Plan, a *store.Answers) bool {
	for k, i := range p.sets {
		if slices.ContainsFunc(p.rules[k], func(j int) bool { return isLasting(&whole.Sets[i], &a.Sets[i], j) }) {
			return true
		}
	}
	return false
}

// undone returns the records of what to give back of a part because another part
// refused. Overdrafts stay, except those below the decider of their set.
func (p *part) undone(a *store.Answers) []redis.Undo {
	list, at := slices.Clone(p.undo), 0
	for k, i := range p.sets {
		for _, j := range p.rules[k] {
			if d := a.Sets[i].Decider; list[at].Stays() && (d < 0 || j <= d) {
				list[at] = redis.Undo{}
			}
			at++
		}
	}
	return list
}

// turns are the parts of a take that waits for its turn or has a receipt, for Cancel.
type turns []*part

// setTurn reports the longest wait of the parts.
func setTurn(a *store.Answers, parts []*part) {
	for _, p := range parts {
		if p.after.Wait > a.Wait {
			k := p.after.Waiter[0]
			a.Wait, a.Waiter = p.after.Wait, [2]int{p.sets[k], p.rules[k][p.after.Waiter[1]]}
		}
	}
}

// waitFor sets the turn and the receipt of an allowed take, and makes it possible to
// cancel it if it has one of them.
func waitFor(a *store.Answers, parts []*part) {
	setTurn(a, parts)
	setReceipt(a, parts)
	if a.Wait == 0 && a.Receipt == "" {
		return
	}
	for _, p := range parts {
		cloneSubjects(&p.plan)
	}
	a.Undo = turns(parts)
}

// Cancel gives back the hits of a take that waits for its turn or has a receipt. Each slot
// gives back once, in the background, as parts of refused takes do. Only a take in one slot
// is given back before Cancel returns.
func (s *Store) Cancel(ctx context.Context, p *store.Plan, a *store.Answers) error {
	if parts, ok := a.Undo.(turns); ok {
		a.Undo = nil
		for _, part := range parts {
			part.plan.Now = p.Now
		}
		s.giveBack(parts) //nolint:contextcheck // it outlives its caller
		return nil
	}
	c := s.evaluator.Cancel(p, a)
	if c == nil {
		return nil
	}
	c.Slot, _ = slotOfCall(c)
	return s.evaluator.FinishCancel(ctx, s.nodes, c, p)
}
