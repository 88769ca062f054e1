package redis

import (
	"context"
	"fmt"

	"github.com/koalagate/koalagate/internal/store"
)

// turn describes, for Cancel, a take that waits or has a receipt.
type turn struct {
	undo         string // its encoded undo records
	tag, receipt string
}

// Cancel gives back the hits of a take that waits for its turn or has a receipt, in one
// call that is not repeated. The budget bounds it, and ctx does.
func (s *Store) Cancel(ctx context.Context, p *store.Plan, a *store.Answers) error {
	c := s.evaluator.Cancel(p, a)
	if c == nil {
		return nil
	}
	return s.evaluator.FinishCancel(ctx, s.batcher, c, p)
}

// Cancel returns a call that gives back the take of p whose answers a are; nil if they
// have no Undo. FinishCancel ends it.
func (e *Evaluator) Cancel(p *store.Plan, a *store.Answers) *Call {
	t, ok := a.Undo.(*turn)
	if !ok {
		return nil
	}
	a.Undo = nil // it gives back once
	c := e.Acquire(p)
	r := reader{rest: t.undo}
	c.GiveBack(r.undos(len(c.keys)), t.tag, t.receipt)
	return c
}

// FinishCancel sends a call of Cancel and releases it.
func (e *Evaluator) FinishCancel(ctx context.Context, sender Sender, c *Call, p *store.Plan) error {
	ctx, cancel := context.WithTimeout(ctx, e.Budget())
	defer cancel()
	abandoned, err := sender.Send(ctx, c)
	e.Changed(c, p)
	if !abandoned {
		e.Release(c)
	}
	if err != nil {
		return fmt.Errorf("redis: give back the turn of a caller that left: %w", err)
	}
	return nil
}
