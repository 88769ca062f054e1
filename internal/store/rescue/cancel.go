package rescue

import (
	"context"

	"github.com/koalagate/koalagate/internal/store"
)

var _ store.Canceler = (*Store)(nil)

// Cancel gives back what a take counted that waits for its turn, in the store that
// decided it. While Redis is unreachable, its hits stay until their windows end: it
// cannot be told, and a give-back is not repeated.
func (s *Store) Cancel(ctx context.Context, p *store.Plan, a *store.Answers) error {
	if a.Undo == nil {
		return nil
	}
	var of any = s.shared
	if a.Degraded {
		of = s.local
	} else if _, share := s.gate.load(); share == 0 {
		a.Undo = nil
		return nil
	}
	if c, ok := of.(store.Canceler); ok {
		return c.Cancel(ctx, p, a)
	}
	return nil
}

// leaveTurn gives back the turn of a take that Redis admitted and that debts refused.
func (s *Store) leaveTurn(ctx context.Context, p *store.Plan, a *store.Answers) {
	if a.Wait == 0 || p.Allowed(a) {
		return
	}
	_ = s.Cancel(ctx, p, a) // a lost give-back leaves hits, as everywhere
	a.Wait, a.Undo = 0, nil
}
