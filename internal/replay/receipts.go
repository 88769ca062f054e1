package replay

import (
	"context"
	"fmt"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/sandbox"
	"github.com/koalagate/koalagate/internal/trace"
	"github.com/koalagate/koalagate/rules"
)

const (
	// someReceipts is the number of receipts at which expired ones are first removed.
	someReceipts = 10_000
	// maxReceipts is the number of valid receipts, about 200 MB.
	maxReceipts = 1_000_000
)

// receipts are the receipts of the takes of a trace in one sandbox, by the names that the
// trace gives them.
type receipts struct {
	span int64 // in ms, for which a receipt is valid at most
	open map[string]openReceipt
	many int // at which expired ones are removed
}

type openReceipt struct {
	receipt string
	at      int64 // of the take or of the last renewal, in ms since the epoch
}

func newReceipts(set *rules.Set) *receipts {
	return &receipts{span: set.ReceiptTime().Milliseconds(), open: make(map[string]openReceipt), many: someReceipts}
}

// note keeps the receipt of a decision, if its line names one. The error is about too many.
func (r *receipts) note(l *trace.Line, d *engine.Decision) error {
	if l.Receipt == "" || d.Receipt == "" {
		return nil
	}
	if len(r.open) >= r.many {
		for name, one := range r.open {
			if one.at < l.T-r.span {
				delete(r.open, name)
			}
		}
		if len(r.open) >= maxReceipts {
			return fmt.Errorf("more than %d receipts are valid and not settled; replay fewer calls at a time, or drop the field receipt from takes that no line settles", maxReceipts)
		}
		r.many = min(max(someReceipts, 2*len(r.open)), maxReceipts)
	}
	r.open[l.Receipt] = openReceipt{d.Receipt, l.T}
	return nil
}

// end carries out a line about a receipt. Known reports whether it was valid.
func (r *receipts) end(ctx context.Context, counters *sandbox.Sandbox, l *trace.Line) (known bool, err error) {
	one, isOpen := r.open[l.Receipt]
	s := l.Settlement(one.receipt)
	if l.Renews() {
		if isOpen {
			one.at = l.T
			r.open[l.Receipt] = one
		}
		got, err := counters.Renew(ctx, s)
		return got.Known, err
	}
	delete(r.open, l.Receipt)
	got, err := counters.Settle(ctx, s)
	return got.Known, err
}
