package cluster

import (
	"context"
	"slices"

	"github.com/koalagate/koalagate/internal/store"
)

// take carries out a take over several slots. If each set is refused exactly
// when one of its rules refuses, all slots take at once. Otherwise the slots are
// asked first, which shows which rules to count. They are also asked first if the take may
// write to a rule below its decider: a part that refuses cannot know the decider.
// Sets that the plan itself gives back come last, when nothing can be refused any more.
//
// A rule that allows may admit when it is asked and refuse in the take, because another
// caller was first. Then its set is decided, and the take starts again without the rules
// from that rule on. Each repetition omits at least one rule more, so it ends.
func (s *Store) take(ctx context.Context, p *store.Plan, a *store.Answers) error {
	if isPlain(p) {
		parts := s.split(p, p.Op, everyRule)
		if _, err := s.takeParts(ctx, p, a, parts); err != nil {
			return err
		}
		if p.Allowed(a) {
			waitFor(a, parts)
		}
		return nil
	}
	refused, err := s.ask(ctx, p, a)
	if err != nil || refused {
		return err
	}
	for {
		parts := s.split(p, p.Op, counted(p, a))
		for _, one := range parts {
			one.follow(p, a)
			one.tentative = true
		}
		again, err := s.takeParts(ctx, p, a, parts)
		switch {
		case err != nil:
			return err
		case again:
			continue
		case !p.Allowed(a):
			// What the refused parts have not left.
			err := s.recordLasting(ctx, p, a, func(slot uint16) bool { return hasRefused(parts, slot) })
			s.reportRefunds(ctx, p, a)
			return err
		case hasRefunds(p):
			if err := s.runSplit(ctx, p, store.Refund, refunds(p), a); err != nil {
				s.giveBack(parts) //nolint:contextcheck // it outlives its caller
				return err
			}
		}
		waitFor(a, parts)
		return nil
	}
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

// takeParts carries out the parts of a take. One refusal refuses the take, also if
// other parts did not answer: no answer of theirs could admit it. again reports that
// each rule that refused has a result that allows its set, and that everything was given
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

// refuses reports whether a rule of set i refused in one of the parts, other than a rule
// of which they know that it allows the set.
func refuses(parts []*part, i int) bool {
	return slices.ContainsFunc(parts, func(p *part) bool {
		k := slices.Index(p.sets, i)
		if k < 0 {
			return false
		}
		d := p.after.Sets[k].Decider
		return d >= 0 && !p.plan.Sets[k].Rules[d].Allows
	})
}

// reportRefunds answers the sets of a refused take that give back with the current state of
// their counters. If that fails their answers stay as they are: the refusal stands.
func (s *Store) reportRefunds(ctx context.Context, p *store.Plan, a *store.Answers) {
	if !hasRefunds(p) {
		return
	}
	unchanged := *p
	unchanged.Sets = slices.Clone(p.Sets)
	for i := range unchanged.Sets {
		unchanged.Sets[i].Rules = slices.Clone(p.Sets[i].Rules)
		for j := range unchanged.Sets[i].Rules {
			unchanged.Sets[i].Rules[j].Weight = 0
		}
	}
	var state store.Answers
	state.Reset(len(p.Sets))
	if s.runSplit(ctx, &unchanged, store.Update, refunds(p), &state) != nil {
		return
	}
	a.Now = max(a.Now, state.Now)
	for i := range p.Sets {
		if p.Sets[i].Refund {
			a.Sets[i] = state.Sets[i]
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

// hasRefused reports whether the part of a slot answered, and counted nothing.
func hasRefused(parts []*part, slot uint16) bool {
	return slices.ContainsFunc(parts, func(p *part) bool { return p.slot == slot && p.err == nil && p.undo == nil })
}

// hasRefunds reports whether a set of the take gives back.
func hasRefunds(p *store.Plan) bool {
	return slices.ContainsFunc(p.Sets, func(s store.Set) bool { return s.Refund })
}

// refunds selects the rules of the sets that give back.
func refunds(p *store.Plan) selection {
	return func(i, _ int) bool { return p.Sets[i].Refund }
}

// counted selects the rules of a take that was asked, and may be allowed: the rules above
// the decider, except omitted ones, and a decider of which something stays.
func counted(p *store.Plan, a *store.Answers) selection {
	return func(i, j int) bool {
		set, got := &p.Sets[i], &a.Sets[i]
		if j == got.Decider {
			return isLasting(set, got, j)
		}
		return !set.Refund && (got.Decider < 0 || j < got.Decider) && !omitted(set, got, j)
	}
}

// omitted reports whether the parts of a take omit rule j: a shadow rule that refused when
// it was asked, and of which nothing stays. An overdraft or a ban must be written in the
// order of the sets: a later set of the step sees it.
func omitted(set *store.Set, a *store.Answer, j int) bool {
	return slices.Contains(a.Refusals, j) && !set.Rules[j].Marked && !isLasting(set, a, j)
}
