// Package rescue decides what happens when Redis is unreachable: then the
// in-process store answers.
//
// A breaker watches the calls to the shared store; when it opens, or a call
// shows that Redis is unreachable, the gate closes and an absence begins. A
// probe then checks Redis about every 100 ms. When Redis answers, the gate opens
// in stages (probe.go). In rescue each instance counts for itself, with a share
// of each limit (share.go), and what it counts is lost when Redis is back.
// The answers of Redis seed the in-process store beforehand: identities that are
// refused when Redis becomes unreachable stay refused, and counters start from
// the state that Redis last reported.
//
// A single call may fail although Redis is in use, mostly because this process
// is short of CPU. The local store decides it too, and what it admits is charged
// to Redis afterwards (debts.go).
package rescue

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/breaker"
	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// Shared is the store that all instances share.
type Shared interface {
	// Try evaluates the plan, and also returns the evidence of the attempt about the store.
	Try(ctx context.Context, p *store.Plan, a *store.Answers) (store.Attempt, error)
	// TryAssign assigns shares, and also returns the evidence of the attempt about the store.
	TryAssign(ctx context.Context, u *store.Usage) (store.Assignment, store.Attempt, error)
	// Check returns an error that explains why the store cannot count now, or nil.
	Check(ctx context.Context) error
	store.Canceler
	store.Settler
}

// Local is the store of this process.
type Local interface {
	store.Store
	store.Assigner
	// Seed makes the counters of rules that refused in the shared store refuse
	// here too, and other counters start from what the shared store reported.
	Seed(p *store.Plan, a *store.Answers)
	// ForgetCounted forgets all counters except counters that only Seed has set.
	ForgetCounted()
}

// Store answers from the shared store while that is reachable, and from the
// local store otherwise. It is safe for concurrent use.
type Store struct {
	shared   Shared
	local    Local
	onChange func(State)
	onRescue func(error)
	share    float64

	gate     gate
	arrivals atomic.Uint32 // counts the calls while only a share passes
	breaker  breaker.Breaker
	debts    debts

	settlements settlements

	mu       sync.Mutex // guards the rest of the state, and the order of changes
	state    State
	reported map[string]bool // the remedies reported in this absence

	stage  func() <-chan time.Time // returns when the stage of the return that begins has ended
	wake   chan struct{}           // starts the probe
	ctx    context.Context
	cancel context.CancelFunc
	ended  chan struct{}
	paying sync.WaitGroup // the charges of debts, and the settlements that wait
}

var _ store.Store = (*Store)(nil)

// State is which store answers.
type State struct {
	// Degraded reports that the local store answers; while Redis returns, some
	// of the calls.
	Degraded bool
	// Since is when that began, or ended.
	Since time.Time
	// Err is the last error that showed Redis to be unreachable; nil if none did.
	Err error
}

// Options configure a Store.
type Options struct {
	// OnChange is called after each change of the state, one call at a time, in
	// the goroutine that caused it; and during an absence, once for each
	// further fault of Redis. It must not block.
	OnChange func(State)
	// OnRescue is called with the error of each call that the local store then
	// answered while Redis counts as reachable, and with the error of hits of such calls
	// that cannot be charged to Redis. Calls may be frequent and concurrent. It must not
	// block.
	OnRescue func(error)
	// Share is the share of each limit that applies while the local store
	// answers, above 0 and up to 1: with 1/N, N instances together admit what
	// one Redis would. Other values mean 1. Shares are rounded down, but admit
	// the weight of the request if the whole limit does.
	Share float64
	// MaxSettlements is the number of settlements that may wait while Redis is
	// unreachable; 0 means DefaultMaxSettlements. OnDrop is called for each one beyond
	// it, concurrently. It must return at once, and may be nil.
	MaxSettlements int
	OnDrop         func()
	// OnGiveUp is called with the last error of each settlement that has failed for a minute
	// while Redis was reachable, and is not tried again: its estimates stand. It must return at
	// once, and may be nil.
	OnGiveUp func(error)
}

// forgetAfter is how long Redis must be back before what was counted in rescue
// is forgotten: longer than an unstable Redis takes to settle, so that limits do
// not start from zero at each of its failures.
const forgetAfter = time.Minute

// New returns a store that answers from shared, else from local. It checks
// shared first, so that an instance that starts while Redis works counts its
// first call there. The caller closes shared and local after Close.
func New(shared Shared, local Local, o Options) *Store {
	s := &Store{
		shared:   shared,
		local:    local,
		onChange: o.OnChange,
		onRescue: o.OnRescue,
		share:    o.Share,
		state:    State{Since: time.Now()},
		stage:    func() <-chan time.Time { return time.After(stageTime) },
		wake:     make(chan struct{}, 1),
		ended:    make(chan struct{}),

		settlements: settlements{most: o.MaxSettlements, onDrop: o.OnDrop, onGiveUp: o.OnGiveUp, wake: make(chan struct{}, 1)},
	}
	if s.share <= 0 || s.share > 1 {
		s.share = 1
	}
	if s.settlements.most <= 0 {
		s.settlements.most = DefaultMaxSettlements
	}
	s.gate.open()
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.firstCheck(); err != nil {
		s.suspend(err)
	}
	s.debts.entries, s.debts.wake = make(map[string]*debt), make(chan struct{}, 1)
	go s.probe()
	s.paying.Go(func() { s.charge(s.ctx) })
	s.paying.Go(func() { s.settleLater(s.ctx) })
	return s
}

// firstCheck checks the shared store, several times if it is only slow: a
// machine that starts many programs at once is busy.
func (s *Store) firstCheck() error {
	for range breaker.MaxFailures {
		if err := s.shared.Check(s.ctx); err == nil || !redisconn.TimedOut(err) {
			return err
		}
	}
	return s.shared.Check(s.ctx)
}

// Evaluate carries out the plan in the shared store, or in process and reports
// that in a.Degraded. The error comes from the caller's context or the plan.
func (s *Store) Evaluate(ctx context.Context, p *store.Plan, a *store.Answers) error {
	if absences, share := s.gate.load(); share == everyCall || share > 0 && s.arrivals.Add(1)%everyCall < share {
		attempt, err := s.shared.Try(ctx, p, a)
		if err == nil {
			// A refusal that the shared store remembers shows nothing about its health; its
			// first answer was seeded.
			if attempt.Health == store.Answered {
				s.breaker.Answered()
				s.local.Seed(p, a)
			}
			// A call that borrows announces itself before it reads what was seeded:
			// either it sees this answer, or this call sees the debt.
			if s.debts.size.Load() > 0 && s.deduct(p, a) {
				s.leaveTurn(ctx, p, a)
			}
			return nil
		}
		if err := cmp.Or(p.Validate(), ctx.Err()); err != nil {
			return err // an invalid plan, and a caller who has left, show nothing about Redis
		}
		s.judge(err, attempt, absences)
		if now, _ := s.gate.load(); now == absences && borrows(p, attempt) {
			return s.borrow(ctx, p, a, attempt)
		}
	}
	err := s.local.Evaluate(ctx, s.inProcess(p), a)
	a.Degraded = true
	return err
}

// judge decides whether a failed call makes Redis unreachable. A call from
// before the last absence shows nothing.
func (s *Store) judge(err error, attempt store.Attempt, absences uint32) {
	if now, _ := s.gate.load(); now != absences {
		return
	}
	switch {
	case attempt.Health == store.Unreachable,
		attempt.Health == store.Failed && s.breaker.Failed(attempt.Trip):
		s.suspend(err)
	case s.onRescue != nil:
		s.onRescue(err)
	}
}

// suspend stops calls to the shared store.
func (s *Store) suspend(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate.close()
	s.breaker.Reset()
	s.state.Err = err
	if s.state.Degraded {
		return // it was returning
	}
	s.state.Degraded, s.state.Since = true, time.Now()
	s.reported = map[string]bool{redisconn.Remedy(err): true}
	s.reportChange()
	select {
	case s.wake <- struct{}{}:
	default: // the probe is running
	}
}

// reportChange calls OnChange.
func (s *Store) reportChange() {
	if s.onChange != nil {
		s.onChange(s.state)
	}
}

// State returns which store answers.
func (s *Store) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Close ends the probe, charges and settlements, and waits for their ends.
func (s *Store) Close() {
	s.cancel()
	<-s.ended
	s.paying.Wait()
}

// everyCall is the share of an open gate. Shares are numbers of calls that pass
// out of everyCall.
const everyCall = 16

// gate holds the share of the calls that go to the shared store, and the number
// of absences: how often the gate was closed. A call compares absences to find
// out whether it began before the last one. Both are one number, so that a call
// needs a single load. The zero value is closed.
type gate struct{ value atomic.Uint64 }

// load returns the number of absences and the current share.
func (g *gate) load() (absences, share uint32) {
	v := g.value.Load()
	return uint32(v >> 32), uint32(v)
}

// open lets every call pass.
func (g *gate) open() { g.value.Store(g.value.Load()&^uint64(1<<32-1) | everyCall) }

// close lets no call pass and counts an absence. Calls of close must not
// overlap.
func (g *gate) close() {
	absences, _ := g.load()
	g.value.Store(uint64(absences+1) << 32)
}

// widen sets the share, unless the gate was closed since that number of
// absences. It reports whether it did.
func (g *gate) widen(absences, share uint32) bool {
	v := g.value.Load()
	return uint32(v>>32) == absences && g.value.CompareAndSwap(v, uint64(absences)<<32|uint64(share))
}
