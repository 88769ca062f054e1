package replay

import (
	"context"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/sandbox"
	"github.com/koalagate/koalagate/internal/trace"
)

// receipts are the receipts of the takes of a trace in one sandbox, by the names that the
// trace gives them.
type receipts map[string]string

// note keeps the receipt of a decision, if its line names one.
func (r receipts) note(l *trace.Line, d *engine.Decision) {
	if l.Receipt != "" && d.Receipt != "" {
		r[l.Receipt] = d.Receipt
	}
}

// end carries out a line about a receipt. Known reports whether it was valid.
func (r receipts) end(ctx context.Context, counters *sandbox.Sandbox, l *trace.Line) (known bool, err error) {
	s := l.Settlement(r[l.Receipt])
	if l.Renews() {
		got, err := counters.Renew(ctx, s)
		return got.Known, err
	}
	delete(r, l.Receipt)
	got, err := counters.Settle(ctx, s)
	return got.Known, err
}
