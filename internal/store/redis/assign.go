package redis

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/koalagate/koalagate/internal/store"
)

var _ store.Assigner = (*Store)(nil)

// assignReply is the size of the reply to a usage: lua/assign.lua.
const assignReply = 1 + 1 + 2 + 8*7 + 2

// usage is the numbers of a usage, in the order of lua/assign.lua.
type usage [7]int64

// The flags of a usage.
const (
	usageReported = 1
	usageFresh    = 2
	usageLeaves   = 4
	usageReduces  = 8
	usageLooks    = 16
	usageReturns  = 32
)

func usageOf(u *store.Usage) usage {
	a, b := numbersOf(u)
	flags := flag(u.Reported, usageReported) | flag(u.Fresh, usageFresh) | flag(u.Leave, usageLeaves) | flag(u.Look, usageLooks) | flag(u.Returns, usageReturns)
	return usage{a, b, flags, u.Allowed, u.Denied, u.Elapsed, u.Lasts}
}

// numbersOf returns the id of a holder.
func numbersOf(u *store.Usage) (a, b int64) {
	id := u.ID()
	number := func(part [6]byte) int64 { return int64(binary.BigEndian.Uint64(append([]byte{0, 0}, part[:]...))) }
	return number(id.Name), number(id.Stream)
}

func (u *usage) pack(n *numbers) {
	for _, number := range u {
		n.add(number)
	}
}

// Assign assigns shares of limits. It takes at most the budget of a call.
func (s *Store) Assign(ctx context.Context, u *store.Usage) (store.Assignment, error) {
	return s.evaluator.Assign(ctx, s.batcher, 0, u)
}

// TryAssign is Assign, and also returns the evidence of the attempt about Redis.
func (s *Store) TryAssign(ctx context.Context, u *store.Usage) (store.Assignment, store.Attempt, error) {
	a, err := s.Assign(ctx, u)
	return a, store.Attempt{Health: s.evaluator.Judge(err, s.evaluator.Budget())}, err
}

// Assign assigns shares of limits whose counters are in one slot.
func (e *Evaluator) Assign(ctx context.Context, sender Sender, slot uint16, u *store.Usage) (store.Assignment, error) {
	if err := u.Validate(); err != nil {
		return store.Assignment{}, err
	}
	return e.assign(ctx, sender, slot, u, usageOf(u))
}

// Reduce reduces the shares that the last usage of a holder has assigned to a rate and a burst,
// which it has got. If they are 0 it has got nothing: then shares by which it kept its bucket
// stay, as they reserve what it has.
func (e *Evaluator) Reduce(ctx context.Context, sender Sender, slot uint16, u *store.Usage, rate, burst int64) error {
	a, b := numbersOf(u)
	_, err := e.assign(ctx, sender, slot, u, usage{a, b, usageReduces | flag(u.Fresh, usageFresh), rate, burst, 0, u.Lasts})
	return err
}

func (e *Evaluator) assign(ctx context.Context, sender Sender, slot uint16, u *store.Usage, n usage) (a store.Assignment, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.Budget())
	defer cancel()
	rules := make([]store.Rule, len(u.Rules))
	for i := range rules {
		rules[i] = u.Rules[i]
		rules[i].Weight, rules[i].Shadow, rules[i].Allows = 0, false, false // calls that differ in them have one shape
	}
	p := &store.Plan{Op: assignShares, Now: u.Now, Zone: u.Zone, Sets: []store.Set{{Rules: rules}}}
	c := e.calls.Get().(*Call)
	c.usage = n
	c.pack(e.begin, "", p)
	c.Slot, c.sets = slot, 0 // no answers
	abandoned, err := sender.Send(ctx, c)
	e.Changed(c, p) // what goes back may let takes pass
	if err != nil {
		if !abandoned {
			e.Release(c)
		}
		return a, fmt.Errorf("redis: assign: %w", err)
	}
	r := reader{rest: c.answer.sets}
	a.Now, a.Send, a.Reason, a.Rule = c.answer.now, r.uint(1) == 1, store.Reason(r.uint(1)), int(r.uint(2))
	for _, number := range [...]*int64{&a.Rate, &a.Burst, &a.Lasts, &a.Banned, &a.Forfeited, &a.Debt, &a.Lent, &a.Limit} {
		*number = int64(r.uint(7))
	}
	a.Holders = int64(r.uint(2))
	e.Release(c)
	if a.Rule >= len(u.Rules) {
		return store.Assignment{}, errReply
	}
	return a, r.err()
}
