// Package lease lets an instance hold parts of limits in advance, so that it decides most
// calls of a busy counter without Redis.
//
// Redis counts the hits of a part when it grants the part, so that all instances together
// never admit one hit too many; and it remembers how many hits may be unspent, so that no
// call is refused early by more than that: Rule.Lease bounds it (lua/lease.lua). A Store
// stands in front of the other stores. It answers a call whose every counter has a part
// that is large enough, and passes all others on as they are (answer.go). The calls that
// it passes on show which counters are busy; for these it asks for parts, sized for the
// next 50 ms, in the background (demand.go, renew.go). A part ends with its window, or
// after a time on this process's monotonic clock, which starts before the request is sent:
// so it ends here before it ends in Redis. What idle parts still hold is given back
// (sweep.go). While Redis is unreachable, parts are spent until they end.
package lease

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/koalagate/koalagate/internal/store"
)

// DefaultTime is the default of Options.Time.
const DefaultTime = 2 * time.Second

// Options configure a Store.
type Options struct {
	// Time is how long a part lasts, if its window does not end before; 0 means
	// DefaultTime.
	Time time.Duration
	// Seed is called with the state of a counter after each grant, as with the answer to
	// a take; nil for none. It is called concurrently.
	Seed func(p *store.Plan, a *store.Answers)
	// Clock is a monotonic clock; nil means the clock of this process.
	Clock func() time.Duration
	// Now is the Now of requests for parts; nil means the clock of Redis.
	Now func() int64
	// Run calls a function that requests a part; nil means in a goroutine. With Run, the
	// caller calls Sweep, which makes one request after the other.
	Run func(f func())
}

// Store answers calls from held parts, and passes the others on. It is safe for
// concurrent use.
type Store struct {
	store.Store // the next store, which also cancels and settles
	shared      store.Lessor
	lasts       time.Duration
	seed        func(p *store.Plan, a *store.Answers)
	clock       func() time.Duration
	now         func() int64
	run         func(f func())
	alone       bool // requests are made one after the other
	hash        maphash.Seed
	shards      [shardCount]shard
	demand      demand
	early       atomic.Int64
	granted     atomic.Int64
	back        atomic.Int64
	lost        atomic.Int64

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	mu      sync.Mutex // guards closed
	closed  bool
	running sync.WaitGroup
}

// shardCount is the number of locks, a power of two.
const shardCount = 64

// maxParts is the number of parts in a shard: 16,000 in all. Only counters that are used
// 80 times a second have one.
const maxParts = 256

type shard struct {
	sync.Mutex
	parts map[string]*part
	spent int64
}

// New returns a store that holds parts of the limits in shared. The caller closes next
// and shared after Close.
func New(next store.Store, shared store.Lessor, o Options) *Store {
	s := &Store{Store: next, shared: shared, lasts: o.Time, seed: o.Seed, clock: o.Clock, now: o.Now, run: o.Run, alone: o.Run != nil, hash: maphash.MakeSeed()}
	for i := range s.shards {
		s.shards[i].parts = make(map[string]*part)
	}
	if s.lasts <= 0 {
		s.lasts = DefaultTime
	}
	if s.clock == nil {
		begin := time.Now()
		s.clock = func() time.Duration { return time.Since(begin) }
	}
	if s.now == nil {
		s.now = func() int64 { return 0 }
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if s.run == nil {
		s.run = s.running.Go
		s.running.Go(s.sweepUntilClosed)
	}
	return s
}

// Evaluate answers the plan from parts, or passes it on. A plan for which Plan.Leases is
// false costs less at the next store, where it gets the same answer.
func (s *Store) Evaluate(ctx context.Context, p *store.Plan, a *store.Answers) error {
	usable := spendable(p)
	if usable && s.answer(p, a) { //nolint:contextcheck // requests for parts outlive the call
		return nil
	}
	if p.Op == store.Reset {
		s.giveUp(p) //nolint:contextcheck // it is carried out though the caller leaves
	}
	if err := s.Store.Evaluate(ctx, p, a); err != nil {
		return err
	}
	switch {
	case p.Op == store.Take && !a.Degraded:
		s.measure(p, a, usable) //nolint:contextcheck // requests for parts outlive the call
	case p.Op == store.Peek && !a.Degraded:
		s.setLeased(ctx, p, a)
	}
	return nil
}

// Close gives back what the parts hold.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.running.Wait()
	s.giveBackAll()
}

// Stats counts the hits of a Store.
type Stats struct {
	Held     int64 // hits in parts now
	Granted  int64
	Spent    int64
	Returned int64
	// Lost is the number of hits that were neither spent nor given back: Redis did not
	// answer, or their window had closed.
	Lost int64
	// Early is the number of calls that Redis refused only because of hits that instances
	// held.
	Early int64
}

// Stats returns the counts so far.
func (s *Store) Stats() Stats {
	all := Stats{Granted: s.granted.Load(), Returned: s.back.Load(), Lost: s.lost.Load(), Early: s.early.Load()}
	now := s.clock()
	for i := range s.shards {
		one := &s.shards[i]
		one.Lock()
		all.Spent += one.spent
		for _, p := range one.parts {
			if now < p.until {
				all.Held += p.held
			}
		}
		one.Unlock()
	}
	return all
}
