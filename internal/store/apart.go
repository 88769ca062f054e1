package store

import (
	"context"
	"slices"
	"sync"
)

// part is what of a plan lies in one slot.
type part struct {
	slot     uint16
	plan     Plan
	sets     []int   // which of the plan's sets these are
	rules    [][]int // which of each set's rules
	answers  Answers
	looked   Answers   // what a look would have answered; of a take
	receipts []receipt // nil if nothing was counted
	err      error
}

// choice tells which rules of a plan are meant.
type choice func(set, rule int) bool

// split has a part for each slot in which a chosen rule's counter is. Each of
// them allows where no rule refuses.
func (r *Redis) split(p *Plan, op Op, chosen choice) []*part {
	var parts []*part
	var key []byte
	for i := range p.Sets {
		for j := range p.Sets[i].Rules {
			if !chosen(i, j) {
				continue
			}
			key = appendKey(key[:0], r.begin, p.Sets[i].Rules[j].Subject)
			slot := slotOf(key)
			at := slices.IndexFunc(parts, func(one *part) bool { return one.slot == slot })
			if at < 0 {
				at = len(parts)
				parts = append(parts, &part{slot: slot, plan: Plan{Op: op, Now: p.Now, Zone: p.Zone}})
			}
			parts[at].add(i, j, &p.Sets[i].Rules[j])
		}
	}
	return parts
}

// add puts rule j of set i behind those that the part has.
func (p *part) add(i, j int, r *Rule) {
	last := len(p.sets) - 1
	if last < 0 || p.sets[last] != i {
		last++
		p.sets = append(p.sets, i)
		p.rules = append(p.rules, nil)
		p.plan.Sets = append(p.plan.Sets, Set{Allows: true})
	}
	rule := *r
	rule.Allows = false
	p.rules[last] = append(p.rules[last], j)
	p.plan.Sets[last].Rules = append(p.plan.Sets[last].Rules, rule)
}

// carryOutParts has all parts carried out at a time, and returns the first
// fault.
func (r *Redis) carryOutParts(ctx context.Context, parts []*part) error {
	var others sync.WaitGroup
	for _, p := range parts[min(1, len(parts)):] {
		others.Go(func() { r.carryOutPart(ctx, p) })
	}
	if len(parts) > 0 {
		r.carryOutPart(ctx, parts[0])
	}
	others.Wait()
	for _, p := range parts {
		if p.err != nil {
			return p.err
		}
	}
	return nil
}

func (r *Redis) carryOutPart(ctx context.Context, p *part) {
	c := r.calls.Get().(*call)
	c.pack(r.begin, &p.plan)
	c.slot = p.slot
	if c.op == Take || c.op == CompleteTake {
		c.askReceipts()
	}
	var lost bool
	lost, p.err = r.carryOut(ctx, c)
	switch {
	case p.err != nil:
	case c.wants:
		p.receipts, p.err = c.readTaken(&p.looked, &p.answers)
	default:
		p.answers.reset(len(p.sets))
		p.err = c.read(&p.plan, &p.answers)
	}
	r.changed(c, &p.plan)
	if !lost {
		r.calls.Put(c)
	}
}

// evaluateApart carries out a plan whose counters lie in several slots: one
// round trip for all of them, for most plans. The slots are no one step: what
// one refuses is given back in the others a moment later, and refuses others
// until then.
func (r *Redis) evaluateApart(ctx context.Context, p *Plan, a *Answers) error {
	if p.Op == Take || p.Op == CompleteTake {
		return r.takeApart(ctx, p, a)
	}
	return r.answerApart(ctx, p, p.Op, everyRule, a)
}

func everyRule(int, int) bool { return true }

// answerApart carries out an operation that is not taken back, on the rules
// that are chosen.
func (r *Redis) answerApart(ctx context.Context, p *Plan, op Op, chosen choice, a *Answers) error {
	parts := r.split(p, op, chosen)
	if err := r.carryOutParts(ctx, parts); err != nil {
		return err
	}
	for i := range p.Sets {
		merge(a, i, parts, op, (*part).after)
	}
	return nil
}

func (p *part) after() *Answers  { return &p.answers }
func (p *part) before() *Answers { return &p.looked }

// merge makes the answer to set i of what the parts that have rules of it say;
// it stays as it is where none has. The first rule that refuses decides, as if
// all were in one place.
func merge(a *Answers, i int, parts []*part, op Op, which func(*part) *Answers) {
	first := true
	for _, p := range parts {
		k := slices.Index(p.sets, i)
		if k < 0 {
			continue
		}
		if first {
			a.Sets[i].reset()
			first = false
		}
		a.Now = max(a.Now, p.answers.Now)
		a.Sets[i].join(&which(p).Sets[k], p.rules[k])
	}
	s := &a.Sets[i]
	slices.Sort(s.Refusals)
	if walks := op == Take || op == Browse; walks && s.Decider >= 0 {
		s.Refusals = slices.DeleteFunc(s.Refusals, func(j int) bool { return j > s.Decider })
	}
}

// join takes in what a part of the set answers, whose rules are these of the
// set.
func (a *Answer) join(part *Answer, rules []int) {
	for _, j := range part.Refusals {
		a.Refusals = append(a.Refusals, rules[j])
	}
	if part.Reporter < 0 {
		return
	}
	decider, reporter := -1, rules[part.Reporter]
	if part.Decider >= 0 {
		decider = rules[part.Decider]
	}
	switch {
	case a.Decider >= 0 && (decider < 0 || decider > a.Decider):
		return
	case a.Decider < 0 && decider < 0 && a.Reporter >= 0 &&
		(part.Remaining > a.Remaining || part.Remaining == a.Remaining && reporter > a.Reporter):
		return
	}
	refusals := a.Refusals
	*a = *part
	a.Refusals, a.Decider, a.Reporter = refusals, decider, reporter
}
