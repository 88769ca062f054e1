package cluster

import (
	"context"

	"github.com/koalagate/koalagate/internal/store"
)

var _ store.Lessor = (*Store)(nil)

// Lease asks the node of a counter for a part of its limit.
func (s *Store) Lease(ctx context.Context, l *store.Lease) (store.Grant, error) {
	return s.evaluator.Lease(ctx, s.nodes, slotOf(s.evaluator.AppendKey(nil, l.Rule.Subject)), l)
}
