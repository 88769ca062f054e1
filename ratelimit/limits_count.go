package ratelimit

import (
	"context"
	"errors"
	"time"

	"github.com/koalagate/koalagate/internal/dropin/imported"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/rules"
)

// countable is the threshold of counters that only count: more than any limit, so that
// every hit fits, and the answer to a take contains the exact count.
const countable = 9_000_000_000_000_000

// countAll counts the operations, and then the other descriptors.
func (c *limitCall) countAll(ctx context.Context) error {
	if c.operations > 0 {
		settled := ctx
		if c.operations == len(c.message.descriptors) {
			var cancel context.CancelFunc
			settled, cancel = outliving(ctx)
			defer cancel()
		}
		c.operating = true
		err := c.count(settled)
		if c.operating = false; err != nil {
			return err
		}
	}
	return c.count(ctx)
}

// takes reports whether a descriptor has a limit and is counted now.
func (c *limitCall) takes(a *applied) bool {
	return a.limit != nil && (a.operation != decide) == c.operating
}

// count counts the descriptors whose turn it is, and sets their results.
func (c *limitCall) count(ctx context.Context) error {
	if !c.fillPlan() {
		return nil
	}
	if c.limits.options.StopWhenOver && !c.limits.options.FreeRefusals && !c.operating {
		if err := c.stopWhenOver(ctx); err != nil {
			return err
		}
	}
	if err := c.limits.options.Store.Evaluate(ctx, &c.plan, &c.answers); err != nil {
		return err
	}
	if c.answers.Degraded && c.limits.options.Outage == rules.FailGateway {
		return errors.New("Redis is unavailable, and the policy of the door leaves the decision to the gateway")
	}
	for i := range c.applied {
		if a := &c.applied[i]; c.takes(a) {
			c.settle(a)
		}
	}
	return nil
}

// fillPlan makes a set of the plan of each descriptor with a limit, and reports whether
// there is any.
func (c *limitCall) fillPlan() bool {
	sets := c.plan.Sets[:0]
	begin := 0
	for i := range c.applied {
		a := &c.applied[i]
		from := begin
		if a.subject > 0 {
			begin = a.subject
		}
		if !c.takes(a) {
			continue
		}
		a.set, a.counted = len(sets), a.weight
		if len(sets) < cap(sets) {
			sets = sets[:len(sets)+1]
		} else {
			sets = append(sets, store.Set{})
		}
		set := &sets[a.set]
		set.Allows, set.Refund = true, a.negative
		set.Rules = append(set.Rules[:0], c.rule(a, c.subject[from:a.subject:a.subject]))
	}
	c.plan = store.Plan{Op: store.Take, Zone: time.UTC, Sets: sets}
	return len(sets) > 0
}

// rule returns the counter of a descriptor.
func (c *limitCall) rule(a *applied, subject []byte) store.Rule {
	r := store.Rule{
		Subject: subject, Weight: a.weight, Time: a.limit.Unit.Seconds(),
		Method: store.Count, Unit: store.Epoch, Count: countable,
	}
	switch c.limits.options.Windows {
	case imported.Opening:
		r.Unit = store.Seconds
	case imported.Sliding:
		r.Method, r.Unit = store.Leak, store.Seconds
	}
	if c.refuses(a) {
		r.Count = int64(a.limit.Requests)
		// A weight of 0 is a look, which fits as long as the limit is not exceeded.
		r.Overdraft = a.ownHits && a.weight > 0
	}
	return r
}

// refuses reports whether the store refuses what exceeds the limit of a descriptor,
// instead of counting it.
func (c *limitCall) refuses(a *applied) bool {
	s := c.limits
	return a.operation == decide && s.options.FreeRefusals && !s.options.Shadow && !s.options.Quota && !a.limit.Shadow && !a.limit.Quota && !a.negative
}

// stopWhenOver reads all counters, and removes the weights of descriptors that do not
// exceed their limits if others do.
func (c *limitCall) stopWhenOver(ctx context.Context) error {
	for i := range c.plan.Sets {
		c.plan.Sets[i].Rules[0].Weight = 0
	}
	if err := c.limits.options.Store.Evaluate(ctx, &c.plan, &c.answers); err != nil {
		return err
	}
	exceeds := false
	for i := range c.applied {
		if a := &c.applied[i]; c.takes(a) && !a.negative {
			a.after = hitsOf(&c.answers.Sets[a.set]) + a.weight
			a.over = a.after > c.threshold(a)
			exceeds = exceeds || a.over
		}
	}
	for i := range c.applied {
		a := &c.applied[i]
		if !c.takes(a) {
			continue
		}
		if exceeds && !a.over && !a.negative {
			a.counted = 0
		}
		c.plan.Sets[a.set].Rules[0].Weight = a.counted
	}
	return nil
}

// hitsOf returns the hits of a counter that only counts.
func hitsOf(from *store.Answer) int64 {
	if from.Decider >= 0 { // more than countable
		return from.Limit + 1
	}
	return from.Limit - from.Remaining
}

// threshold returns the limit that applies to a descriptor.
func (c *limitCall) threshold(a *applied) int64 {
	limit := int64(a.limit.Requests)
	if c.answers.Degraded && c.limits.options.RescueShare < 1 {
		share := int64(float64(limit) * c.limits.options.RescueShare)
		return max(share, min(limit, a.weight)) // as package rescue does
	}
	return limit
}

// measure sets the count of a descriptor, and whether it exceeds the limit.
func (c *limitCall) measure(a *applied) {
	from := &c.answers.Sets[a.set]
	limit := c.threshold(a)
	a.reset = max(1, (from.Reset+999)/1000)
	if c.refuses(a) {
		a.over, a.after = from.Decider >= 0, limit-from.Remaining
		if a.over {
			a.after = limit + a.weight
		}
	} else {
		a.after = hitsOf(from)
		a.over = a.after > limit
	}
}

// settle sets the result of a descriptor that was counted, and reports it.
func (c *limitCall) settle(a *applied) {
	c.measure(a)
	if a.negative {
		a.over = false
		c.limits.options.Statistics.Subtracted(a.path, uint64(a.weight))
	} else {
		c.limits.options.Statistics.Counted(a.path, a.limit, uint64(a.weight), uint64(max(a.after-a.counted, 0)), uint64(a.after))
	}
	if c.answers.Degraded && c.limits.options.Outage != rules.FailRescue && c.limits.options.Outage != rules.FailUnset {
		a.over = c.limits.options.Outage != rules.FailAllow // unknown policies deny
	}
	a.remaining = 0
	if !a.over {
		a.remaining = clamp(c.threshold(a) - a.after)
	}
}
