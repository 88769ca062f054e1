package machine

import (
	"context"

	"github.com/google/go-cmp/cmp"

	"github.com/koalagate/koalagate/internal/store"
)

// Twin is a store that assigns shares, which is compared with another: both must give the
// same assignments, and admit the same takes.
type Twin struct {
	Sharer
	Other Sharer
	Fail  func(format string, a ...any)
}

// Assign assigns shares in both stores.
func (t *Twin) Assign(ctx context.Context, u *store.Usage) (store.Assignment, error) {
	a, err := t.Sharer.Assign(ctx, u)
	if err != nil {
		return a, err
	}
	b, err := t.Other.Assign(ctx, u)
	if diff := cmp.Diff(b, a); diff != "" {
		t.Fail("at %d other assignments for %+v (-want +got):\n%s", u.Now, u, diff)
	}
	return a, err
}

// Evaluate evaluates a plan in both stores.
func (t *Twin) Evaluate(ctx context.Context, p *store.Plan, a *store.Answers) error {
	if err := t.Sharer.Evaluate(ctx, p, a); err != nil {
		return err
	}
	var b store.Answers
	err := t.Other.Evaluate(ctx, p, &b)
	if p.Allowed(a) != p.Allowed(&b) {
		t.Fail("at %d %s gets %+v, want %+v", p.Now, Describe(p), a.Sets, b.Sets)
	}
	return err
}
