package engine

import (
	"context"
	"errors"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/rules"
)

// settleTimeout bounds a settlement, which is carried out although its caller has left.
const settleTimeout = time.Second

// Settlement describes how a request with a receipt ended. Receipt is required.
type Settlement struct {
	// Receipt is the Decision.Receipt of the request. It is a secret: its holder can
	// give back what the request reserved.
	Receipt string
	// Hits is the number of hits that the request used, 0 … 10^15, if HasHits is set.
	// Otherwise estimates stand, unless Response has what they became, and Hits must be 0.
	Hits    uint64
	HasHits bool
	// Response are the parameters of the response, whose names begin with response.;
	// others are ignored. Nil is none.
	Response *rules.Params
	// Door is the name of the entry point of the settlement, for metrics.
	Door string
	// Now is the time of the settlement in ms since the epoch, for replay and tests. 0
	// uses the clock of the store.
	Now int64
}

// Settled is the result of a settlement or a renewal.
type Settled struct {
	// Known is true if the receipt was valid. Otherwise it was never issued, is
	// settled already or has expired, and nothing changed.
	Known bool
	// Age is the time since the decision, 0 if the receipt is unknown.
	Age time.Duration
	// Deferred is true if Redis is unavailable and the settlement waits for it. Known
	// is then true, although the receipt may turn out to be unknown.
	Deferred bool
}

// ErrUnknownReceipt is the error of Decision.Settle and Decision.Renew for a receipt that
// is settled already or has expired.
var ErrUnknownReceipt = errors.New("engine: the receipt is settled already, or has expired")

// Settle settles a receipt in one atomic step: reservations become what was used, holds
// end, and rules that count by the response are charged if its parameters meet their
// conditions, by the rules in force. The receipt is spent. An unknown receipt is no
// error. The settlement is carried out although ctx has ended. The error is an
// InvalidError or an error of the store.
func (e *Engine) Settle(ctx context.Context, s *Settlement) (Settled, error) {
	if e == nil || e.store == nil {
		return Settled{}, errNotBuilt
	}
	switch {
	case s == nil:
		return Settled{}, invalid("the settlement is nil")
	case s.HasHits && s.Hits > MaxHits:
		return Settled{}, invalid("a settlement of %d hits; want at most %d", s.Hits, int64(MaxHits))
	case !s.HasHits && s.Hits > 0:
		return Settled{}, invalid("a settlement has %d hits without HasHits; set HasHits, or leave Hits 0", s.Hits)
	}
	j := &judge{rules: e.Rules(), settlement: s, response: s.Response}
	if j.response == nil {
		j.response = new(rules.Params)
	}
	got, err := e.onReceipt(ctx, s.Receipt, func(ctx context.Context) (store.Settled, error) {
		return e.store.Settle(ctx, &store.Settlement{Receipt: s.Receipt, Now: s.Now, Zone: j.rules.Zone, Judge: store.JudgeFuncs{Use: j.use, Kept: j.kept}})
	})
	if e.settled != nil {
		e.settled(s, got, err)
	}
	return got, err
}

// Renew extends the holds of a receipt, and the receipt, to their full time from now. It
// does not shorten them or revive expired holds. An unknown receipt is no error. Only
// Receipt, Door and Now of the settlement are used.
func (e *Engine) Renew(ctx context.Context, s *Settlement) (Settled, error) {
	if e == nil || e.store == nil {
		return Settled{}, errNotBuilt
	}
	if s == nil {
		return Settled{}, invalid("no receipt to renew")
	}
	got, err := e.onReceipt(ctx, s.Receipt, func(ctx context.Context) (store.Settled, error) {
		return e.store.Renew(ctx, &store.Renewal{Receipt: s.Receipt, Now: s.Now})
	})
	if e.renewed != nil {
		e.renewed(s, got, err)
	}
	return got, err
}

// onReceipt carries out an operation on a receipt of the form that stores issue.
func (e *Engine) onReceipt(ctx context.Context, receipt string, do func(context.Context) (store.Settled, error)) (Settled, error) {
	if !store.ValidReceipt(receipt) {
		return Settled{}, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	got, err := do(ctx)
	return Settled{Known: got.Known || got.Deferred, Age: milliseconds(got.Age), Deferred: got.Deferred}, err
}

// ValidReceipt reports whether a text has the form of a receipt: at most 120 letters,
// digits and the signs - and _. Doors check what callers send before they settle it. For
// koalagate's own programs, may change.
func ValidReceipt(text string) bool { return store.ValidReceipt(text) }

// judge reports what became of the parts of a receipt, by the rules in force.
type judge struct {
	rules      *rules.Set
	settlement *Settlement
	response   *rules.Params
}

// kept returns use of a judge that does not refer to the settlement of the caller.
func (j *judge) kept() func(int64, store.Method) store.Use {
	settlement := *j.settlement
	return (&judge{rules: j.rules, settlement: &settlement, response: j.response.Clone()}).use
}

// use returns the use of the rule with a number and a method.
func (j *judge) use(number int64, m store.Method) store.Use {
	r := j.rules.Rule(number)
	if r == nil || store.Method(r.Method) != m {
		return store.Use{}
	}
	use := store.Use{Concerns: true}
	if use.Hits, use.Given = r.UsedHits(j.response); !use.Given && j.settlement.HasHits {
		use.Hits, use.Given = int64(j.settlement.Hits), true
	}
	use.Charge = r.Charges(j.response)
	return use
}

// ObserveSettlements calls settled after each settlement and renewed after each renewal,
// in the goroutine of the caller. They must not retain the settlement. Each may be nil.
// For koalagate's own programs, may change.
func ObserveSettlements(settled, renewed func(*Settlement, Settled, error)) Option {
	return setting(func(s *settings) { s.settled, s.renewed = settled, renewed })
}

// Settle settles the receipt of the decision with the hits that the request used. It does
// nothing without a receipt, and returns ErrUnknownReceipt for one that is settled or has
// expired. Engine.Settle also takes parameters of the response.
func (d *Decision) Settle(ctx context.Context, hits uint64) error {
	return d.onReceipt(ctx, (*Engine).Settle, &Settlement{Hits: hits, HasHits: true})
}

// Renew makes the holds of the decision last for their time from now. It does nothing
// without a receipt, and returns ErrUnknownReceipt for one that is settled or has expired.
func (d *Decision) Renew(ctx context.Context) error {
	return d.onReceipt(ctx, (*Engine).Renew, &Settlement{})
}

func (d *Decision) onReceipt(ctx context.Context, do func(*Engine, context.Context, *Settlement) (Settled, error), s *Settlement) error {
	if d == nil || d.Receipt == "" {
		return nil
	}
	s.Receipt = d.Receipt
	got, err := do(d.engine, ctx, s)
	if err == nil && !got.Known {
		err = ErrUnknownReceipt
	}
	return err
}
