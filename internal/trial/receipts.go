package trial

import (
	"context"
	"sync"
	"time"

	"github.com/koalagate/koalagate/engine"
)

// Links keep which receipt of the trial belongs to a receipt of the rules in force, so
// that each instance can settle both.
type Links interface {
	// Link keeps a receipt of the trial for a time, from now on.
	Link(ctx context.Context, inForce, onTrial string, span time.Duration) error
	// Linked returns the receipt of the trial, "" if there is none.
	Linked(ctx context.Context, inForce string) (onTrial string, err error)
}

// maxReceipts is the number of receipts that a trial remembers in process.
const maxReceipts = 100_000

// receipts belong to calls that this instance decided. A settlement may arrive before
// the trial has decided its call: then it waits.
type receipts struct {
	links Links
	span  time.Duration // the longest for which a receipt of the trial is valid

	mu    sync.Mutex
	open  map[string]*receipt // by the receipt of the rules in force
	order []string            // oldest first; some are settled
}

type receipt struct {
	decided bool
	own     string      // of the trial; "" if it refused the call or has no part in it
	waiting *settlement // until it is decided
}

// wait has a settlement wait until the receipt is decided, from when holds last: so a renewal
// before it changes nothing, and nothing follows a settlement.
func (r *receipt) wait(s *settlement) {
	if r.waiting == nil || r.waiting.renews {
		r.waiting = s
	}
}

// expect notes that the trial will decide a call with this receipt, "" for none.
func (r *receipts) expect(inForce string) {
	if inForce == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		r.open = make(map[string]*receipt)
	}
	for len(r.order) >= maxReceipts {
		delete(r.open, r.order[0])
		r.order = r.order[1:]
	}
	r.open[inForce] = new(receipt)
	r.order = append(r.order, inForce)
}

// forget forgets a receipt: the trial has not decided its call, or it is settled.
func (r *receipts) forget(inForce string) {
	if inForce == "" {
		return
	}
	r.mu.Lock()
	delete(r.open, inForce)
	r.mu.Unlock()
}

// link notes the receipt of the trial, and carries out the settlement that has waited.
func (r *receipts) link(t *Trial, inForce, own string) {
	if inForce == "" {
		return
	}
	r.mu.Lock()
	var waiting *settlement
	if one := r.open[inForce]; one != nil {
		one.decided, one.own, waiting = true, own, one.waiting
		one.waiting = nil
	}
	r.mu.Unlock()
	settled := waiting != nil && !waiting.renews
	if own != "" && r.links != nil && !settled {
		// Another instance may receive the settlement.
		if err := r.links.Link(t.ctx, inForce, own, r.span); err != nil && t.ctx.Err() == nil {
			t.dropped.Add(1)
		}
	}
	if waiting != nil {
		waiting.run(t)
	}
}

// settlement is a settlement or a renewal that the rules in force have carried out.
type settlement struct {
	engine.Settlement
	renews bool
}

// Settle takes a settlement that the rules in force have carried out. It never waits.
func (t *Trial) Settle(s *engine.Settlement) { t.settle(s, false) }

// Renew takes a renewal that the rules in force have carried out. It never waits.
func (t *Trial) Renew(s *engine.Settlement) { t.settle(s, true) }

func (t *Trial) settle(s *engine.Settlement, renews bool) {
	own := &settlement{Settlement: *s, renews: renews}
	own.Response = s.Response.Clone()
	t.receipts.mu.Lock()
	if one := t.receipts.open[s.Receipt]; one != nil && !one.decided {
		one.wait(own)
		t.receipts.mu.Unlock()
		return
	}
	t.receipts.mu.Unlock()
	t.enqueue(own)
}

// run carries out the settlement on the trial's receipt, if it has one.
func (s *settlement) run(t *Trial) {
	inForce := s.Receipt
	own, err := t.receipts.of(t.ctx, inForce)
	if err == nil && own == "" {
		return
	}
	if err == nil {
		to := s.Settlement
		to.Receipt = own
		if s.renews {
			if _, err = t.engine.Renew(t.ctx, &to); err == nil && t.receipts.links != nil {
				err = t.receipts.links.Link(t.ctx, inForce, own, t.receipts.span)
			}
		} else {
			t.receipts.forget(inForce)
			_, err = t.engine.Settle(t.ctx, &to)
		}
	}
	if err != nil && t.ctx.Err() == nil {
		t.dropped.Add(1)
	}
}

// of returns the receipt of the trial, "" if there is none.
func (r *receipts) of(ctx context.Context, inForce string) (string, error) {
	r.mu.Lock()
	one := r.open[inForce]
	r.mu.Unlock()
	switch {
	case one != nil:
		return one.own, nil
	case r.links != nil:
		return r.links.Linked(ctx, inForce)
	}
	return "", nil
}
