package rescue

import (
	"context"

	"github.com/koalagate/koalagate/internal/store"
)

// Cancel gives back a take in the store that decided it. While Redis is unreachable, the
// hits that Redis counted stay until their windows end: a give-back is not repeated.
func (s *Store) Cancel(ctx context.Context, p *store.Plan, a *store.Answers) error {
	if a.Undo == nil {
		return nil
	}
	if a.Degraded {
		return s.local.Cancel(ctx, p, a)
	}
	if _, share := s.gate.load(); share == 0 {
		a.Undo = nil
		return nil
	}
	return s.shared.Cancel(ctx, p, a)
}

// leaveTurn gives back the turn of a take that Redis admitted and that debts refused.
func (s *Store) leaveTurn(ctx context.Context, p *store.Plan, a *store.Answers) {
	if a.Wait == 0 || p.Allowed(a) {
		return
	}
	_ = s.Cancel(ctx, p, a) // a lost give-back leaves hits, as everywhere
	a.Wait, a.Undo = 0, nil
}
