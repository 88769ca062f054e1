package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// part is the part of a plan that lies in one slot.
type part struct {
	slot      uint16
	plan      store.Plan
	sets      []int         // indices of its sets in the whole plan
	rules     [][]int       // per set, indices of its rules in that set
	after     store.Answers // the answers of its operation
	before    store.Answers // of a take: the answers of a browse before it
	undo      []redis.Undo  // of a take: what it counted; nil if nothing
	err       error
	final     bool // a take that is never given back, and makes no receipt
	tentative bool // a take that leaves nothing if it is refused
	asks      bool // a take that is refused whatever its counters hold
	// receipt is the receipt of the whole take; the part makes its own under that name.
	receipt string
}

// selection reports whether a rule of a plan is selected.
type selection func(set, rule int) bool

func everyRule(int, int) bool { return true }

// split returns a part for each slot that holds the counter of a selected rule.
// The sets of the parts allow if no rule refuses.
func (s *Store) split(p *store.Plan, op store.Op, selected selection) []*part {
	var parts []*part
	var key []byte
	for i := range p.Sets {
		for j := range p.Sets[i].Rules {
			if !selected(i, j) {
				continue
			}
			key = s.evaluator.AppendKey(key[:0], p.Sets[i].Rules[j].Subject)
			slot := slotOf(key)
			at := slices.IndexFunc(parts, func(one *part) bool { return one.slot == slot })
			if at < 0 {
				at = len(parts)
				parts = append(parts, &part{slot: slot, plan: store.Plan{Op: op, Now: p.Now, Zone: p.Zone, Patience: p.Patience}})
			}
			parts[at].add(i, j, &p.Sets[i].Rules[j])
		}
	}
	return parts
}

// add appends rule j of set i.
func (p *part) add(i, j int, r *store.Rule) {
	last := len(p.sets) - 1
	if last < 0 || p.sets[last] != i {
		last++
		p.sets = append(p.sets, i)
		p.rules = append(p.rules, nil)
		p.plan.Sets = append(p.plan.Sets, store.Set{Allows: true})
	}
	rule := *r
	rule.Allows = false
	p.rules[last] = append(p.rules[last], j)
	p.plan.Sets[last].Rules = append(p.plan.Sets[last].Rules, rule)
}

// evaluateSplit carries out a plan whose counters lie in several slots, mostly
// in one round trip to all of them.
func (s *Store) evaluateSplit(ctx context.Context, p *store.Plan, a *store.Answers) error {
	if p.Op == store.Take || p.Op == store.CompleteTake {
		return s.take(ctx, p, a)
	}
	return s.runSplit(ctx, p, p.Op, everyRule, a)
}

// runSplit carries out an operation that is never given back on the selected
// rules.
func (s *Store) runSplit(ctx context.Context, p *store.Plan, op store.Op, selected selection, a *store.Answers) error {
	parts := s.split(p, op, selected)
	if err := s.runParts(ctx, parts); err != nil {
		return err
	}
	for i := range p.Sets {
		merge(a, i, parts, op, (*part).answersAfter)
	}
	if op == store.Browse && p.Allowed(a) {
		return s.browseTurn(ctx, p, a, parts)
	}
	return nil
}

// browseTurn reports the longest wait of the rules that a browse reaches. A part does not know
// that a rule in another slot decides and allows, and takes one of its own for a refusal: if
// there is one, the rules above the deciders that may wait are asked alone.
func (s *Store) browseTurn(ctx context.Context, p *store.Plan, a *store.Answers, parts []*part) error {
	if slices.ContainsFunc(a.Sets, func(set store.Answer) bool { return set.Decider >= 0 }) {
		parts = s.split(p, store.Browse, func(i, j int) bool {
			d := a.Sets[i].Decider
			return p.Sets[i].Rules[j].Wait > 0 && (d < 0 || j < d)
		})
		if err := s.runParts(ctx, parts); err != nil {
			return err
		}
	}
	setTurn(a, parts)
	return nil
}

// errCounted is wrapped beside the error of a part that was not sent if another part of the
// plan may have been counted for good: the plan must not be charged again.
var errCounted = errors.New("other slots may have counted")

// mayHaveCounted reports whether the part may have been counted for good: what an answered
// take counted is given back if another part fails.
func (p *part) mayHaveCounted() bool {
	if p.err == nil {
		return p.final || !p.takes()
	}
	return !errors.Is(p.err, redisconn.ErrUnsent)
}

func (p *part) takes() bool {
	return p.plan.Op == store.Take || p.plan.Op == store.CompleteTake
}

// runParts carries out all parts at the same time and returns the first error.
func (s *Store) runParts(ctx context.Context, parts []*part) error {
	var rest sync.WaitGroup
	for _, p := range parts[min(1, len(parts)):] {
		rest.Go(func() { s.runPart(ctx, p) })
	}
	if len(parts) > 0 {
		s.runPart(ctx, parts[0])
	}
	rest.Wait()
	for _, p := range parts {
		switch {
		case p.err == nil:
		case errors.Is(p.err, redisconn.ErrUnsent) && slices.ContainsFunc(parts, (*part).mayHaveCounted):
			return fmt.Errorf("%w; %w", p.err, errCounted)
		default:
			return p.err
		}
	}
	return nil
}

func (s *Store) runPart(ctx context.Context, p *part) {
	c := s.evaluator.Acquire(&p.plan)
	c.Slot = p.slot
	if !p.final && p.takes() {
		if p.tentative {
			c.WantUndoOrNothing()
		} else {
			c.WantUndo()
		}
		if p.receipt != "" {
			c.MakeReceipt(tagOf(p.slot), p.receipt)
		}
	}
	var abandoned bool
	abandoned, p.err = s.nodes.Send(ctx, c)
	switch {
	case p.err != nil:
	case c.WantsUndo():
		if p.undo, p.err = c.ReadTake(&p.before, &p.after); p.after.Receipt != "" {
			s.evaluator.RememberReceipt(c, &p.after)
		}
	default:
		p.after.Reset(len(p.plan.Sets))
		p.err = c.Read(&p.plan, &p.after)
	}
	if !p.asks {
		s.evaluator.Changed(c, &p.plan)
	}
	if !abandoned {
		s.evaluator.Release(c)
	}
}

func (p *part) answersAfter() *store.Answers  { return &p.after }
func (p *part) answersBefore() *store.Answers { return &p.before }

// merge makes the answer to set i from the answers of the parts that have rules
// of it; without such parts it leaves the answer unchanged. The first rule that
// refuses decides, as if all counters were in one slot.
func merge(a *store.Answers, i int, parts []*part, op store.Op, answers func(*part) *store.Answers) {
	first := true
	for _, p := range parts {
		k := slices.Index(p.sets, i)
		if k < 0 {
			continue
		}
		if first {
			a.Sets[i].Clear()
			first = false
		}
		a.Now = max(a.Now, p.after.Now)
		join(&a.Sets[i], &answers(p).Sets[k], p.rules[k])
	}
	set := &a.Sets[i]
	slices.Sort(set.Refusals)
	if walks := op == store.Take || op == store.Browse; walks && set.Decider >= 0 {
		set.Refusals = slices.DeleteFunc(set.Refusals, func(j int) bool { return j > set.Decider })
	}
}

// join adds the answer of a part of the set to a. rules maps the part's indices
// of rules to the set's indices.
func join(a, part *store.Answer, rules []int) {
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
