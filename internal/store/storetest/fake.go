package storetest

import (
	"context"

	"github.com/koalagate/koalagate/internal/store"
)

// Receiptless is embedded in stores of tests that only evaluate plans: it keeps no
// receipts and gives nothing back.
type Receiptless struct{}

// Cancel gives nothing back.
func (Receiptless) Cancel(context.Context, *store.Plan, *store.Answers) error { return nil }

// Settle knows no receipt.
func (Receiptless) Settle(context.Context, *store.Settlement) (store.Settled, error) {
	return store.Settled{}, nil
}

// Renew knows no receipt.
func (Receiptless) Renew(context.Context, *store.Renewal) (store.Settled, error) {
	return store.Settled{}, nil
}

// Failing is a store that fails each plan with Err, or panics if Err is nil.
type Failing struct {
	Receiptless
	Err error
}

// Evaluate fails.
func (f Failing) Evaluate(context.Context, *store.Plan, *store.Answers) error {
	if f.Err == nil {
		panic("the store is broken")
	}
	return f.Err
}

// Degraded is a store that answers as if Redis were unreachable.
type Degraded struct{ store.Store }

// Evaluate evaluates the plan in the store.
func (d Degraded) Evaluate(ctx context.Context, p *store.Plan, a *store.Answers) error {
	err := d.Store.Evaluate(ctx, p, a)
	a.Degraded = true
	return err
}
