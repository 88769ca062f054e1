package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/koalagate/koalagate/internal/store"
)

var _ store.Lessor = (*Store)(nil)

// leaseReply is the size of the reply to a request for a part: lua/lease.lua.
const leaseReply = 2*6 + 4*7

// packLease appends the numbers of a request for a part, in the order of lua/lease.lua.
func packLease(n *numbers, l *store.Lease) {
	for _, number := range [...]int64{l.Era, l.Ends, l.Drop, l.Keep, l.Back, l.Ask, l.Lasts} {
		n.add(number)
	}
}

// Lease asks for a part of the limit of a counter. It takes at most the budget of a call.
func (s *Store) Lease(ctx context.Context, l *store.Lease) (store.Grant, error) {
	return s.evaluator.Lease(ctx, s.batcher, 0, l)
}

// Lease asks for a part of the limit of a counter in a slot.
func (e *Evaluator) Lease(ctx context.Context, sender Sender, slot uint16, l *store.Lease) (g store.Grant, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.Budget())
	defer cancel()
	rule := l.Rule
	rule.Weight = 0 // calls that differ in weights have one shape
	p := &store.Plan{Op: leasePart, Now: l.Now, Zone: time.UTC, Sets: []store.Set{{Rules: []store.Rule{rule}}}}
	c := e.calls.Get().(*Call)
	c.lease = *l
	c.pack(e.begin, "", p)
	c.Slot, c.sets = slot, 0 // no answers
	abandoned, err := sender.Send(ctx, c)
	if l.Back > 0 {
		e.Changed(c, p)
	}
	if err != nil {
		if !abandoned {
			e.Release(c)
		}
		return g, fmt.Errorf("redis: lease: %w", err)
	}
	r := reader{rest: c.answer.sets}
	g.Now = c.answer.now
	for _, number := range [...]*int64{&g.Era, &g.Ends} {
		*number = int64(r.uint(6))
	}
	for _, number := range [...]*int64{&g.Granted, &g.Remaining, &g.Reset, &g.Held} {
		*number = int64(r.uint(7))
	}
	e.Release(c)
	return g, r.err()
}
