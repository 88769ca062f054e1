package store

import (
	"context"
	"slices"
)

// maxGivingBack bounds the give-backs under way. One beyond it is dropped, and
// its hits stay until their windows end.
const maxGivingBack = 4096

// takeApart carries out a take over several slots. Where each set is refused by
// the first rule that has no room, and by nothing else, all slots take at once;
// else a look comes first that tells which rules are counted. What is given
// back by the plan itself comes last, when nothing can be refused any more.
func (r *Redis) takeApart(ctx context.Context, p *Plan, a *Answers) error {
	chosen, op := choice(everyRule), p.Op
	if !p.isPlain() {
		look := Browse
		if op == CompleteTake {
			look = Complete
		}
		if err := r.answerApart(ctx, p, look, p.notRefund, a); err != nil {
			return err
		}
		if !p.allowed(a) {
			return r.report(ctx, p, a)
		}
		chosen = p.counted(a)
	}
	parts := r.split(p, op, chosen)
	err := r.carryOutParts(ctx, parts)
	refused := slices.ContainsFunc(parts, func(one *part) bool { return one.receipts == nil })
	if err != nil || refused {
		r.giveBack(parts) //nolint:contextcheck // it outlives its caller
		if err != nil {
			return err
		}
	}
	for i := range p.Sets {
		// A decider that a look found allows, and stays, unless a rule above it
		// has no room any more: another set may have taken it since.
		if a.Sets[i].Decider < 0 || refuses(parts, i) {
			r.settle(p, a, i, parts, refused)
		}
	}
	if refused {
		return r.report(ctx, p, a)
	}
	if p.refunds() {
		if err := r.answerApart(ctx, p, Refund, p.isRefund, a); err != nil {
			r.giveBack(parts) //nolint:contextcheck // as above
			return err
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

// report answers the sets that give back where they do not: as they are.
func (r *Redis) report(ctx context.Context, p *Plan, a *Answers) error {
	if !p.refunds() {
		return nil
	}
	still := *p
	still.Sets = slices.Clone(p.Sets)
	for i := range still.Sets {
		still.Sets[i].Rules = slices.Clone(p.Sets[i].Rules)
		for j := range still.Sets[i].Rules {
			still.Sets[i].Rules[j].Weight = 0
		}
	}
	return r.answerApart(ctx, &still, Update, p.isRefund, a)
}

// giveBack gives back what the parts have taken, in the background, once each.
// A part that did not answer may have counted nothing, and is left.
func (r *Redis) giveBack(parts []*part) {
	for _, p := range parts {
		if p.err != nil || p.receipts == nil {
			continue
		}
		if r.givingBack.Add(1) > maxGivingBack {
			r.givingBack.Add(-1)
			continue
		}
		r.background.Go(func() {
			defer r.givingBack.Add(-1)
			ctx, cancel := context.WithTimeout(r.nodes.ctx, r.budget)
			defer cancel()
			c := r.calls.Get().(*call)
			c.pack(r.begin, &p.plan)
			c.slot = p.slot
			c.giveBack(p.receipts)
			// Without an answer it may have been given back: once is all.
			lost, _ := r.carryOut(ctx, c)
			r.changed(c, &p.plan)
			if !lost {
				r.calls.Put(c)
			}
		})
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

// allowed tells whether a look at the plan allows every set.
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
