package ratelimit

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/koalagate/koalagate/internal/envoylimits"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/rules"
)

// applied is one descriptor with its limit and the result of counting.
type applied struct {
	limit     *envoylimits.Limit // nil if none applies
	unlimited bool
	path      string // of the statistics
	set       int    // in the plan; of those with a limit
	subject   int    // in limitCall.subject, where its subject ends
	weight    int64  // that the descriptor asks for
	negative  bool   // the weight is given back
	ownHits   bool   // the descriptor carries its weight itself

	counted   int64 // the weight that was counted
	after     int64 // hits after the call
	over      bool
	remaining uint32
	reset     int64 // seconds
}

// countable is the threshold of counters that only count: more than any limit, so that
// every hit fits, and the answer to a take tells the exact count.
const countable = 9_000_000_000_000_000

// importedSubject begins the subjects of imported limits. No identity of a rule begins
// with it, see package engine.
const importedSubject = 0xF3

// apply finds the limit of each descriptor.
func (c *limitCall) apply(set *envoylimits.Set) error {
	c.applied = slices.Grow(c.applied[:0], len(c.message.descriptors))[:len(c.message.descriptors)]
	c.subject = c.subject[:0]
	known, replaces := set.Knows(c.message.domain), false
	for i := range c.message.descriptors {
		d, a := &c.message.descriptors[i], &c.applied[i]
		*a = applied{negative: d.isNegative, ownHits: d.hasHits, weight: int64(min(c.message.hitsOf(d), store.MaxWeight))}
		if !known {
			c.limits.Statistics.UnknownDomain(c.message.domain)
			continue
		}
		entries := c.message.entriesOf(i)
		c.match.Shared = nil
		if d.hasLimit {
			limit, err := c.override(d, entries)
			if err != nil {
				return err
			}
			a.limit, a.path = limit, limit.Path
		} else {
			set.Match(c.message.domain, entries, &c.match)
			a.limit, a.path = c.match.Limit, c.match.Path
		}
		if a.limit == nil {
			continue
		}
		replaces = replaces || len(a.limit.Replaces) > 0
		if !a.limit.Unlimited {
			c.appendSubject(a, entries, c.match.Shared)
		}
	}
	if replaces {
		c.replace()
	}
	for i := range c.applied {
		if a := &c.applied[i]; a.limit != nil && a.limit.Unlimited {
			a.limit, a.unlimited = nil, true
		}
	}
	return nil
}

// override returns the limit that a descriptor carries.
func (c *limitCall) override(d *descriptor, entries []mapping.Entry) (*envoylimits.Limit, error) {
	unit := envoylimits.Unit(min(max(d.limit.unit, 0), math.MaxUint8))
	if unit.Seconds() == 0 {
		return nil, errors.New("the limit of a descriptor has no unit; want SECOND to YEAR")
	}
	keys := make([]string, len(entries))
	for i, e := range entries {
		if keys[i] = e.Key; e.Value != "" {
			keys[i] = e.Key + "_" + e.Value
		}
	}
	path := c.message.domain + "." + strings.Join(keys, ".")
	return &envoylimits.Limit{Path: path, Requests: d.limit.requests, Unit: unit}, nil
}

// replace drops the limits that another limit of the call replaces.
func (c *limitCall) replace() {
	var names []string
	for i := range c.applied {
		if l := c.applied[i].limit; l != nil {
			names = append(names, l.Replaces...)
		}
	}
	for i := range c.applied {
		if l := c.applied[i].limit; l != nil && l.Name != "" && !l.Unlimited && slices.Contains(names, l.Name) {
			c.applied[i].limit = nil
		}
	}
}

// appendSubject appends the identity of a descriptor's counter: the unit, the domain and
// the entries, each as key_value, with patterns for values that share a counter.
func (c *limitCall) appendSubject(a *applied, entries []mapping.Entry, shared []string) {
	b := c.subject
	b = append(b, importedSubject, byte(a.limit.Unit))
	b = append(binary.AppendUvarint(b, uint64(len(c.message.domain))), c.message.domain...)
	for i, e := range entries {
		value := e.Value
		if shared != nil && shared[i] != "" {
			value = shared[i]
		}
		b = binary.AppendUvarint(b, uint64(len(e.Key)+1+len(value)))
		b = append(append(append(b, e.Key...), '_'), value...)
	}
	c.subject, a.subject = b, len(b)
}

// count counts the descriptors that have limits, and sets their results.
func (c *limitCall) count(ctx context.Context) error {
	if !c.fillPlan() {
		return nil
	}
	if c.limits.StopWhenOver && !c.limits.FreeRefusals {
		if err := c.stopWhenOver(ctx); err != nil {
			return err
		}
	}
	if err := c.limits.Store.Evaluate(ctx, &c.plan, &c.answers); err != nil {
		return err
	}
	if c.answers.Degraded && c.limits.Outage == rules.FailGateway {
		return errors.New("Redis is unavailable, and the policy of the door leaves the decision to the gateway")
	}
	for i := range c.applied {
		if a := &c.applied[i]; a.limit != nil {
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
		if a.limit == nil {
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
	switch c.limits.Windows {
	case OpeningWindows:
		r.Unit = store.Seconds
	case SlidingWindows:
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
	return s.FreeRefusals && !s.Shadow && !s.Quota && !a.limit.Shadow && !a.limit.Quota && !a.negative
}

// stopWhenOver reads all counters, and removes the weights of descriptors that do not
// exceed their limits if others do.
func (c *limitCall) stopWhenOver(ctx context.Context) error {
	for i := range c.plan.Sets {
		c.plan.Sets[i].Rules[0].Weight = 0
	}
	if err := c.limits.Store.Evaluate(ctx, &c.plan, &c.answers); err != nil {
		return err
	}
	exceeds := false
	for i := range c.applied {
		if a := &c.applied[i]; a.limit != nil && !a.negative {
			a.after = hitsOf(&c.answers.Sets[a.set]) + a.weight
			a.over = a.after > c.threshold(a)
			exceeds = exceeds || a.over
		}
	}
	for i := range c.applied {
		a := &c.applied[i]
		if a.limit == nil {
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
	if c.answers.Degraded && c.limits.RescueShare < 1 {
		share := int64(float64(limit) * c.limits.RescueShare)
		return max(share, min(limit, a.weight)) // as package rescue does
	}
	return limit
}

// settle sets the result of a descriptor that was counted, and reports it.
func (c *limitCall) settle(a *applied) {
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
	if a.negative {
		a.over = false
		c.limits.Statistics.Subtracted(a.path, uint64(a.weight))
	} else {
		c.limits.Statistics.Counted(a.path, a.limit, uint64(a.weight), uint64(max(a.after-a.counted, 0)), uint64(a.after))
	}
	if c.answers.Degraded && c.limits.Outage != rules.FailRescue && c.limits.Outage != rules.FailUnset {
		a.over = c.limits.Outage == rules.FailDeny
	}
	a.remaining = 0
	if !a.over {
		a.remaining = clamp(limit - a.after)
	}
}
