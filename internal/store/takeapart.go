package store

import (
	"bytes"
	"context"
	"fmt"
	"slices"
)

// maxGivingBack bounds the give-backs under way. One beyond it is dropped, and
// its hits stay until their windows end.
const maxGivingBack = 4096

// takeApart carries out a take over several slots. Where each set is refused by
// the first rule that has no room, and by nothing else, all slots take at once;
// else a look comes first that tells which rules are counted. What is given
// back by the plan itself comes last, when nothing can be refused any more.
//
// A rule that allows may have had room when the look came and none for the take:
// another set of the plan, or another caller, was there first. Then its set is
// decided, and the take is made anew without the rules from it on. Each time
// that leaves out a rule more, so it ends.
func (r *Redis) takeApart(ctx context.Context, p *Plan, a *Answers) error {
	chosen := choice(everyRule)
	if !p.isPlain() {
		refused, err := r.look(ctx, p, a)
		if err != nil {
			return err
		}
		if refused {
			r.report(ctx, p, a)
			return nil
		}
		chosen = p.counted(a)
	}
	for {
		parts := r.split(p, p.Op, chosen)
		again, err := r.takeParts(ctx, p, a, parts)
		switch {
		case err != nil:
			return err
		case again:
			chosen = p.counted(a)
		case !p.allowed(a):
			r.report(ctx, p, a)
			return nil
		case p.refunds():
			if err := r.answerApart(ctx, p, Refund, p.isRefund, a); err != nil {
				r.giveBack(parts) //nolint:contextcheck // it outlives its caller
				return err
			}
			return nil
		default:
			return nil
		}
	}
}

// look fills a with what a look says to a take, and tells whether it is refused.
// It is, too, where some parts did not answer and nothing they could say would
// admit it.
func (r *Redis) look(ctx context.Context, p *Plan, a *Answers) (refused bool, err error) {
	op := Browse
	if p.Op == CompleteTake {
		op = Complete
	}
	parts := r.split(p, op, p.notRefund)
	err = r.carryOutParts(ctx, parts)
	answered, lost := answeredOf(parts)
	for i := range p.Sets {
		merge(a, i, answered, op, (*part).after)
	}
	if err == nil {
		return !p.allowed(a), nil
	}
	for i := range p.Sets {
		if d := a.Sets[i].Decider; d >= 0 && (p.Op == CompleteTake || !p.Sets[i].Rules[d].Allows && !p.mayAllow(lost, i, d)) {
			return true, nil
		}
	}
	return false, err
}

// answeredOf are the parts that did answer, and those that did not.
func answeredOf(parts []*part) (answered, lost []*part) {
	for _, p := range parts {
		if p.err == nil {
			answered = append(answered, p)
		} else {
			lost = append(lost, p)
		}
	}
	return answered, lost
}

// mayAllow tells whether a rule of set i that comes before its rule d and allows
// is in one of the parts.
func (p *Plan) mayAllow(parts []*part, i, d int) bool {
	return slices.ContainsFunc(parts, func(one *part) bool {
		k := slices.Index(one.sets, i)
		return k >= 0 && slices.ContainsFunc(one.rules[k], func(j int) bool { return j < d && p.Sets[i].Rules[j].Allows })
	})
}

// takeParts has the parts of a take carried out. Where one of them refuses, the
// take is refused, whatever became of those that did not answer: they might
// have refused too, but could not have admitted it. Again tells that only rules
// refused which allow when they are reached, and that all was given back.
func (r *Redis) takeParts(ctx context.Context, p *Plan, a *Answers, parts []*part) (again bool, err error) {
	err = r.carryOutParts(ctx, parts)
	answered, _ := answeredOf(parts)
	refused := slices.ContainsFunc(answered, func(one *part) bool { return one.receipts == nil })
	if err != nil && !refused {
		r.giveBack(answered) //nolint:contextcheck // it outlives its caller
		return false, err
	}
	var refusers []int
	for i := range p.Sets {
		if refuses(answered, i) {
			refusers = append(refusers, i)
			r.settle(p, a, i, answered, true)
		}
	}
	again = refused && p.allowed(a)
	if refused {
		given := r.giveBack(answered) //nolint:contextcheck // as above
		switch {
		case again && err != nil:
			return false, err
		case again:
			return true, wait(ctx, given, answered)
		}
	}
	for i := range p.Sets {
		// A decider that a look found allows, and stays.
		if a.Sets[i].Decider < 0 && !slices.Contains(refusers, i) {
			r.settle(p, a, i, answered, refused)
		}
	}
	return false, nil
}

// wait waits until it was told of all parts. Where the caller's time ends first,
// that is the fault of a node which has not given back.
func wait(ctx context.Context, told <-chan *part, parts []*part) error {
	rest := slices.Clone(parts)
	for len(rest) > 0 {
		select {
		case one := <-told:
			rest = slices.DeleteFunc(rest, func(p *part) bool { return p == one })
		case <-ctx.Done():
			return &nodeError{addr: ofSlot(rest[0].slot), err: fmt.Errorf("redis: giving back what is to be taken anew: %w", ctx.Err())}
		}
	}
	return nil
}

// settle makes the answer to set i of a take: what was counted, or if another
// set was refused, what a look says.
func (r *Redis) settle(p *Plan, a *Answers, i int, parts []*part, refused bool) {
	before := slices.Clone(a.Sets[i].Refusals) // shadow rules that a look saw refuse: they did not take part
	merge(a, i, parts, p.Op, (*part).after)
	if refused && a.Sets[i].Decider < 0 {
		merge(a, i, parts, p.Op, (*part).before)
	}
	for _, j := range before {
		walked := p.Op != Take || a.Sets[i].Decider < 0 || j < a.Sets[i].Decider
		if walked && !slices.Contains(a.Sets[i].Refusals, j) {
			a.Sets[i].Refusals = append(a.Sets[i].Refusals, j)
		}
	}
	slices.Sort(a.Sets[i].Refusals)
}

// refuses tells whether a rule of set i was refused in one of the parts.
func refuses(parts []*part, i int) bool {
	return slices.ContainsFunc(parts, func(p *part) bool {
		k := slices.Index(p.sets, i)
		return k >= 0 && p.answers.Sets[k].Decider >= 0
	})
}

// report answers the sets of a refused take that give back where they do not: as
// they are. Where that fails they are told nothing: the refusal stands.
func (r *Redis) report(ctx context.Context, p *Plan, a *Answers) {
	if !p.refunds() {
		return
	}
	still := *p
	still.Sets = slices.Clone(p.Sets)
	for i := range still.Sets {
		still.Sets[i].Rules = slices.Clone(p.Sets[i].Rules)
		for j := range still.Sets[i].Rules {
			still.Sets[i].Rules[j].Weight = 0
		}
	}
	_ = r.answerApart(ctx, &still, Update, p.isRefund, a) // see above
}

// giveBack gives back what the parts have taken, in the background, once each,
// and returns a channel that is told of each part once that is over. A part that
// did not answer may have counted nothing, and is left. The subjects belong to
// the caller of Evaluate, who may have others in their place as soon as it
// returns: they are copied.
func (r *Redis) giveBack(parts []*part) <-chan *part {
	over := make(chan *part, len(parts))
	for _, p := range parts {
		if p.err != nil || p.receipts == nil {
			over <- p
			continue
		}
		if r.givingBack.Add(1) <= maxGivingBack {
			p.plan.own()
			if r.nodes.spawn(&r.nodes.backing, func() {
				defer r.givingBack.Add(-1)
				r.giveBackPart(p)
				over <- p
			}) {
				continue
			}
		}
		r.givingBack.Add(-1)
		r.stranded.Add(1)
		over <- p
	}
	return over
}

func (r *Redis) giveBackPart(p *part) {
	ctx, cancel := context.WithTimeout(r.nodes.ctx, r.budget)
	defer cancel()
	c := r.calls.Get().(*call)
	c.pack(r.begin, &p.plan)
	c.slot = p.slot
	c.giveBack(p.receipts)
	// Without an answer it may have been given back: once is all.
	lost, err := r.carryOut(ctx, c)
	if err != nil {
		r.stranded.Add(1)
	}
	r.changed(c, &p.plan)
	if !lost {
		r.calls.Put(c)
	}
}

// own gives a part's plan subjects of its own.
func (p *Plan) own() {
	for i := range p.Sets {
		for j := range p.Sets[i].Rules {
			r := &p.Sets[i].Rules[j]
			r.Subject = bytes.Clone(r.Subject)
		}
	}
}

// isPlain tells whether a take is refused if and only if a rule refuses.
func (p *Plan) isPlain() bool {
	for i := range p.Sets {
		set := &p.Sets[i]
		if set.Refund || !set.Allows ||
			p.Op == Take && slices.ContainsFunc(set.Rules, func(r Rule) bool { return r.Allows }) {
			return false
		}
	}
	return true
}

func (p *Plan) refunds() bool {
	return slices.ContainsFunc(p.Sets, func(s Set) bool { return s.Refund })
}

func (p *Plan) isRefund(i, _ int) bool  { return p.Sets[i].Refund }
func (p *Plan) notRefund(i, _ int) bool { return !p.Sets[i].Refund }

// allowed tells whether the answers to a look at the plan, or to a take, allow
// every set.
func (p *Plan) allowed(a *Answers) bool {
	for i := range p.Sets {
		set, decider := &p.Sets[i], a.Sets[i].Decider
		switch {
		case set.Refund:
		case decider < 0 && !set.Allows, decider >= 0 && (p.Op == CompleteTake || !set.Rules[decider].Allows):
			return false
		}
	}
	return true
}

// counted are the rules that a take counts which a look has allowed: those
// above the one that decided, but shadow rules that refuse.
func (p *Plan) counted(a *Answers) choice {
	return func(i, j int) bool {
		s := &a.Sets[i]
		return !p.Sets[i].Refund && (s.Decider < 0 || j < s.Decider) && !slices.Contains(s.Refusals, j)
	}
}
