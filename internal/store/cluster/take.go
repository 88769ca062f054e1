package cluster

import (
	"context"
	"slices"

	"github.com/koalagate/koalagate/internal/store"
)

// take carries out a take over several slots. If each set is refused exactly
// when one of its rules refuses, all slots take at once. Otherwise a browse
// comes first, which shows which rules to count. It also comes first if the take may
// write to a rule below its decider: a part that refuses keeps overdrafts and bans.
// Sets that the plan itself gives back come last, when nothing can be refused any more.
//
// A rule that allows may admit in the browse and refuse in the take, because
// another set of the plan or another caller was first. Then its set is
// decided, and the take starts again without the rules from that rule on. Each
// repetition omits at least one rule more, so it ends.
func (s *Store) take(ctx context.Context, p *store.Plan, a *store.Answers) error {
	selected := selection(everyRule)
	if !isPlain(p) {
		refused, err := s.browse(ctx, p, a)
		if err != nil {
			return err
		}
		if refused {
			if err := s.recordLasting(ctx, p, a, everyRule); err != nil {
				return err
			}
			s.reportState(ctx, p, a, func(i int) bool {
				return p.Sets[i].Refund || a.Sets[i].Decider < 0 && hasLasting(&p.Sets[i], &a.Sets[i])
			})
			return nil
		}
		// The parts do not reach a decider that allows. What it leaves is written before
		// them, so that they admit no set that its overdraft or ban would refuse.
		if err := s.recordLasting(ctx, p, a, func(i, j int) bool { return j == a.Sets[i].Decider }); err != nil {
			return err
		}
		selected = counted(p, a)
	}
	for {
		parts := s.split(p, p.Op, selected)
		again, err := s.takeParts(ctx, p, a, parts)
		switch {
		case err != nil:
			return err
		case again:
			selected = counted(p, a)
		case !p.Allowed(a):
			s.reportState(ctx, p, a, func(i int) bool { return p.Sets[i].Refund })
			return nil
		case hasRefunds(p):
			if err := s.runSplit(ctx, p, store.Refund, refunds(p), a); err != nil {
				s.giveBack(parts) //nolint:contextcheck // it outlives its caller
				return err
			}
			fallthrough
		default:
			waitFor(a, parts)
			return nil
		}
	}
}

// browse fills a with the answers of a browse of the take, and reports whether
// the take is refused. That also holds if some parts did not answer, but nothing
// that they could answer would admit it.
func (s *Store) browse(ctx context.Context, p *store.Plan, a *store.Answers) (refused bool, err error) {
	op := store.Browse
	if p.Op == store.CompleteTake {
		op = store.Complete
	}
	parts := s.split(p, op, func(i, _ int) bool { return !p.Sets[i].Refund })
	err = s.runParts(ctx, parts)
	answered, failed := answeredOf(parts)
	for i := range p.Sets {
		merge(a, i, answered, op, (*part).answersAfter)
	}
	if err == nil {
		return !p.Allowed(a), nil
	}
	for i := range p.Sets {
		if d := a.Sets[i].Decider; d >= 0 && (p.Op == store.CompleteTake || !p.Sets[i].Rules[d].Allows && !mayAllow(p, failed, i, d)) {
			return true, nil
		}
	}
	return false, err
}

// answeredOf separates the parts that answered from the parts that failed.
func answeredOf(parts []*part) (answered, failed []*part) {
	for _, p := range parts {
		if p.err == nil {
			answered = append(answered, p)
		} else {
			failed = append(failed, p)
		}
	}
	return answered, failed
}

// mayAllow reports whether one of the parts has a rule of set i that allows and
// precedes rule d.
func mayAllow(p *store.Plan, parts []*part, i, d int) bool {
	return slices.ContainsFunc(parts, func(one *part) bool {
		k := slices.Index(one.sets, i)
		return k >= 0 && slices.ContainsFunc(one.rules[k], func(j int) bool { return j < d && p.Sets[i].Rules[j].Allows })
	})
}

// takeParts carries out the parts of a take. One refusal refuses the take, also if
// other parts did not answer: no answer of theirs could admit it. again reports that the
// only rules that refused are rules that allow their sets, and that everything was given
// back; the caller then decides the take again.
func (s *Store) takeParts(ctx context.Context, p *store.Plan, a *store.Answers, parts []*part) (again bool, err error) {
	if p.Settles() {
		receipt := newReceipt()
		for _, one := range parts {
			one.receipt = receipt
		}
	}
	err = s.runParts(ctx, parts)
	answered, _ := answeredOf(parts)
	refused := slices.ContainsFunc(answered, func(one *part) bool { return one.undo == nil })
	if err != nil && !refused {
		s.giveBack(answered) //nolint:contextcheck // it outlives its caller
		return false, err
	}
	var refusers []int
	for i := range p.Sets {
		if refuses(answered, i) {
			refusers = append(refusers, i)
			answerSet(p, a, i, answered, true)
		}
	}
	again = refused && p.Allowed(a)
	if refused {
		if !again {
			for _, one := range answered {
				if one.undo != nil {
					one.undo = one.undone(a)
				}
			}
		}
		done := s.giveBack(answered) //nolint:contextcheck // as above
		switch {
		case again && err != nil:
			return false, err
		case again:
			return true, wait(ctx, done, answered)
		}
	}
	for i := range p.Sets {
		// A decider that the browse found allows its set, and stays.
		if a.Sets[i].Decider < 0 && !slices.Contains(refusers, i) {
			answerSet(p, a, i, answered, refused)
		}
	}
	return false, nil
}

// answerSet makes the answer to set i of a take: the state after it was counted, or
// if another set was refused, the answer of a browse.
func answerSet(p *store.Plan, a *store.Answers, i int, parts []*part, refused bool) {
	earlier := slices.DeleteFunc(slices.Clone(a.Sets[i].Refusals), func(j int) bool {
		return !omitted(&p.Sets[i], &a.Sets[i], j)
	})
	merge(a, i, parts, p.Op, (*part).answersAfter)
	if refused && a.Sets[i].Decider < 0 {
		merge(a, i, parts, p.Op, (*part).answersBefore)
	}
	for _, j := range earlier {
		walked := p.Op != store.Take || a.Sets[i].Decider < 0 || j < a.Sets[i].Decider
		if walked && !slices.Contains(a.Sets[i].Refusals, j) {
			a.Sets[i].Refusals = append(a.Sets[i].Refusals, j)
		}
	}
	slices.Sort(a.Sets[i].Refusals)
}

// refuses reports whether a rule of set i refused in one of the parts.
func refuses(parts []*part, i int) bool {
	return slices.ContainsFunc(parts, func(p *part) bool {
		k := slices.Index(p.sets, i)
		return k >= 0 && p.after.Sets[k].Decider >= 0
	})
}

// reportState answers the selected sets of a refused take with the current state of their
// counters: sets that give back, and sets in which overdrafts or bans stay. If that fails
// their answers stay as they are: the refusal stands.
func (s *Store) reportState(ctx context.Context, p *store.Plan, a *store.Answers, selected func(set int) bool) {
	unchanged := *p
	unchanged.Sets = slices.Clone(p.Sets)
	some := false
	for i := range unchanged.Sets {
		unchanged.Sets[i].Rules = slices.Clone(p.Sets[i].Rules)
		for j := range unchanged.Sets[i].Rules {
			unchanged.Sets[i].Rules[j].Weight = 0
		}
		some = some || selected(i)
	}
	if !some {
		return
	}
	var state store.Answers
	state.Reset(len(p.Sets))
	if s.runSplit(ctx, &unchanged, store.Update, func(i, _ int) bool { return selected(i) }, &state) != nil {
		return
	}
	a.Now = max(a.Now, state.Now)
	for i := range p.Sets {
		if selected(i) {
			refusals := a.Sets[i].Refusals
			a.Sets[i] = state.Sets[i]
			a.Sets[i].Refusals = refusals
		}
	}
}

// isPlain reports whether a take is refused exactly when one of its rules
// refuses, and leaves nothing on a rule below its decider.
func isPlain(p *store.Plan) bool {
	for i := range p.Sets {
		set := &p.Sets[i]
		if set.Refund || !set.Allows || hasLastingBelow(set) ||
			p.Op == store.Take && slices.ContainsFunc(set.Rules, func(r store.Rule) bool { return r.Allows }) {
			return false
		}
	}
	return true
}

// hasRefunds reports whether a set of the take gives back.
func hasRefunds(p *store.Plan) bool {
	return slices.ContainsFunc(p.Sets, func(s store.Set) bool { return s.Refund })
}

// refunds selects the rules of the sets that give back.
func refunds(p *store.Plan) selection {
	return func(i, _ int) bool { return p.Sets[i].Refund }
}

// counted selects the rules that a take counts after a browse has allowed it:
// the rules above the decider, except omitted ones.
func counted(p *store.Plan, a *store.Answers) selection {
	return func(i, j int) bool {
		s := &a.Sets[i]
		return !p.Sets[i].Refund && (s.Decider < 0 || j < s.Decider) && !omitted(&p.Sets[i], s, j)
	}
}

// omitted reports whether the parts of a take omit rule j: a shadow rule that refused in
// the browse, and of which nothing stays. An overdraft or a ban must be written in the
// order of the sets: a later set of the step sees it.
func omitted(set *store.Set, a *store.Answer, j int) bool {
	return slices.Contains(a.Refusals, j) && !set.Rules[j].Marked && !isLasting(set, a, j)
}
