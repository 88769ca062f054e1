package rescue

import (
	"context"
	"errors"
	"sync"
	"time"

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

// settlements wait in memory while Redis is unreachable. Until they are carried out,
// reservations stand, and holds run out by their time.
type settlements struct {
	most     int
	onDrop   func()
	onGiveUp func(error)
	mu       sync.Mutex
	waiting  []waitingSettlement
	wake     chan struct{} // some wait
}

// waitingSettlement is a settlement that waits, and how often it has failed while Redis was
// reachable.
type waitingSettlement struct {
	store.Settlement
	failures int
}

const (
	// DefaultMaxSettlements is the default bound of the settlements that wait.
	DefaultMaxSettlements = 10_000
	// settleEvery is the time between two attempts while Redis does not answer.
	settleEvery = 100 * time.Millisecond
	// settleAtOnce is the number of settlements that are carried out at a time.
	settleAtOnce = 16
	// maxSettleFailures is how often a settlement may fail while Redis is reachable: for a
	// minute. Redis then refuses this one alone, which would wait for ever.
	maxSettleFailures = int(time.Minute / settleEvery)
)

// ErrSettlementDropped is the error of a settlement for which there is no room while
// Redis is unreachable: its estimates stand, and its holds run out.
var ErrSettlementDropped = errors.New("redis is unreachable, and too many settlements wait for it already")

var errUnrenewed = errors.New("redis is unreachable; the holds run out by their time")

// Settle settles a receipt in the store that keeps it. While Redis is unreachable, or if
// it does not answer, the settlement waits, and is carried out as soon as Redis answers
// if the receipt is then still valid.
func (s *Store) Settle(ctx context.Context, t *store.Settlement) (store.Settled, error) {
	if store.KeptBy(store.KeptInProcess, t.Receipt) {
		return s.local.Settle(ctx, t)
	}
	if _, share := s.gate.load(); share > 0 {
		if got, err := s.shared.Settle(ctx, t); err == nil {
			return got, nil
		}
	}
	return s.settlements.add(t)
}

// Renew makes the holds of a receipt last, in the store that keeps it. A renewal does not
// wait for Redis.
func (s *Store) Renew(ctx context.Context, r *store.Renewal) (store.Settled, error) {
	if store.KeptBy(store.KeptInProcess, r.Receipt) {
		return s.local.Renew(ctx, r)
	}
	if _, share := s.gate.load(); share == 0 {
		return store.Settled{}, errUnrenewed
	}
	return s.shared.Renew(ctx, r)
}

// add lets a settlement wait.
func (q *settlements) add(t *store.Settlement) (store.Settled, error) {
	kept := *t
	if j, ok := t.Judge.(store.Keeper); ok {
		kept.Judge = j.Keep()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) >= q.most {
		if q.onDrop != nil {
			q.onDrop()
		}
		return store.Settled{}, ErrSettlementDropped
	}
	q.waiting = append(q.waiting, waitingSettlement{Settlement: kept})
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return store.Settled{Deferred: true}, nil
}

// take returns the settlements that have waited longest.
func (q *settlements) take() []waitingSettlement {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.waiting), settleAtOnce)
	some := append([]waitingSettlement(nil), q.waiting[:n]...)
	rest := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[rest:])
	q.waiting = q.waiting[:rest]
	return some
}

// putBack lets settlements wait again. They may be more than the bound for a while.
func (q *settlements) putBack(some []waitingSettlement) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, some...)
}

// Settlements returns the number of settlements that wait for Redis.
func (s *Store) Settlements() int {
	s.settlements.mu.Lock()
	defer s.settlements.mu.Unlock()
	return len(s.settlements.waiting)
}

// settleLater carries out settlements that wait, until ctx ends.
func (s *Store) settleLater(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.settlements.wake:
		}
		for s.Settlements() > 0 {
			if _, share := s.gate.load(); share == everyCall && s.settleSome(ctx) {
				continue
			}
			if !s.pause(time.After(settleEvery)) {
				return
			}
		}
	}
}

// settleSome carries out some of the settlements that wait. It reports whether Redis
// answered them all; the others wait again, unless they have failed too often.
func (s *Store) settleSome(ctx context.Context) bool {
	some := s.settlements.take()
	errs := make([]error, len(some))
	var rest sync.WaitGroup
	for i := range some {
		rest.Go(func() { _, errs[i] = s.shared.Settle(ctx, &some[i].Settlement) })
	}
	rest.Wait()
	var failed []waitingSettlement
	for i := range some {
		if errs[i] == nil {
			continue
		}
		if some[i].failures++; some[i].failures < maxSettleFailures {
			failed = append(failed, some[i])
		} else if s.settlements.onGiveUp != nil {
			s.settlements.onGiveUp(errs[i])
		}
	}
	s.settlements.putBack(failed)
	return len(failed) == 0
}
