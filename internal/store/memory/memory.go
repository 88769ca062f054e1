// Package memory keeps counters in this process.
//
// A plan is one atomic step (step.go, walk.go) under the locks of its counters, which
// are spread over 64 shards. Each method has a type of counter: window for count
// (count.go), daily for base, slide for leak, bucket for token, holds for hold;
// counter.go has their common parts. A refused take leaves overdrafts and bans
// (lasting.go). A take that waits for its turn or has a receipt leaves a record
// (undo.go), which Cancel gives back and Settle amends (settle.go); receipts.go bounds
// the records. The number of identities is bounded: identities beyond it share counters
// (spill.go), and counters that have ended are swept as the store is used (sweep.go).
// Assign assigns shares of limits to gateways that decide by themselves (assign.go); lent.go
// has the counters of which shares are assigned, and shares.go the arithmetic.
// Seed takes over what another store answered: refusals and bans, and the last states of
// other counters (seed.go). Copy takes over the counters of another Store (copy.go).
package memory

import (
	"context"
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/koalagate/koalagate/internal/store"
)

// shards is the number of locks over the counters: with 64 the set of locks that
// a plan needs fits into one word.
const shards = 64

// longSubject is the length in bytes up to which a subject is its own key.
const longSubject = 128

// Store keeps the counters of this process. A plan is one atomic step over all of
// its counters. It is safe for concurrent use.
//
// The number of identities is bounded. An active counter is never dropped for
// another one, so a full store resets no limit: identities beyond the bound share
// counters, see spill.go.
type Store struct {
	clock    func() int64
	calendar store.Calendar
	seed     maphash.Seed    // of the shards
	long     [2]maphash.Seed // of long subjects
	shards   [shards]shard
	steps    sync.Pool
	onFull   func()
	onExcess func()
	shared   atomic.Uint64 // times that a rule was counted on a shared counter, or had none to share
	swept    atomic.Int64  // when a shard was last swept, by the clock of plans
	turn     atomic.Uint32 // index of the shard that is swept next
	last     atomic.Pointer[states]
	receipts receipts
}

var _ store.Store = (*Store)(nil)

// Options configure a Store.
type Options struct {
	// Clock returns the time in ms since the epoch, for plans without a clock of
	// their own; nil means the machine's clock.
	Clock func() int64
	// MaxIdentities bounds the identities that have counters of their own; 0
	// means DefaultMaxIdentities. Each of the 64 shards has its part of the
	// bound, so sharing may begin some percent below it.
	MaxIdentities int
	// OnFull is called, outside of all locks, after every plan that counted on a
	// shared counter, and every usage without a share because its counter has no
	// room. It must return at once.
	OnFull func()
	// MaxReceipts bounds the receipts that are kept; 0 means DefaultMaxReceipts.
	// Beyond it hold rules refuse, and other takes get no receipt: their estimates
	// stand.
	MaxReceipts int
	// OnExcess is called, outside of all locks, after every plan that found MaxReceipts
	// receipts open. It must return at once.
	OnExcess func()
}

// DefaultMaxReceipts is the default bound of receipts. With one rule each they take
// about 50 MB.
const DefaultMaxReceipts = 100_000

// DefaultMaxIdentities is the default bound of identities. With one counter each
// they take about 150 MB, with several or leak counters more.
const DefaultMaxIdentities = 1_000_000

// New returns a store without any counters.
func New(o Options) *Store {
	m := &Store{clock: o.Clock, seed: maphash.MakeSeed(), long: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, onFull: o.OnFull, onExcess: o.OnExcess}
	if o.MaxIdentities <= 0 {
		o.MaxIdentities = DefaultMaxIdentities
	}
	if m.clock == nil {
		m.clock = func() int64 { return time.Now().UnixMilli() }
	}
	for i := range m.shards {
		m.shards[i].subjects = make(map[string][]cell)
		m.shards[i].maxSubjects = (o.MaxIdentities + shards - 1) / shards
	}
	if m.receipts.most = int64(o.MaxReceipts); o.MaxReceipts <= 0 {
		m.receipts.most = DefaultMaxReceipts
	}
	m.steps.New = func() any { return &step{memory: m} }
	return m
}

// Close releases all counters.
func (m *Store) Close() { m.Clear() }

// Clear forgets all counters.
func (m *Store) Clear() {
	for i := range m.shards {
		s := &m.shards[i]
		s.Lock()
		s.subjects, s.spilled, s.peak = make(map[string][]cell), nil, 0
		s.Unlock()
	}
	m.last.Store(nil)
	m.receipts.clear()
}

// Evaluate carries out the plan as one atomic step and fills a.
func (m *Store) Evaluate(ctx context.Context, p *store.Plan, a *store.Answers) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := p.Validate(); err != nil {
		return err
	}
	m.evaluate(p, a)
	m.sweep(a.Now)
	return nil
}

// evaluate carries out the plan under the locks that it needs.
func (m *Store) evaluate(p *store.Plan, a *store.Answers) {
	s := m.steps.Get().(*step)
	defer m.steps.Put(s)
	if shares := s.carryOut(p, a); shares > 0 {
		m.shared.Add(uint64(shares))
		if m.onFull != nil {
			m.onFull()
		}
	}
	if s.at.full && m.onExcess != nil {
		m.onExcess()
	}
}

// moment returns the time at which the plan is decided.
func (m *Store) moment(p *store.Plan) moment {
	t := moment{now: p.Now, patience: p.Patience, update: p.Op == store.Update, zone: p.Zone, calendar: &m.calendar}
	if t.now == 0 {
		t.now = m.clock()
	}
	return t
}

// keptUnder returns the key of a subject's counters: the subject itself, or for a
// long one, whose length clients choose, 128 bits of hash, which are appended to
// hashes. Clients do not know the seeds, so they cannot construct collisions.
func (m *Store) keptUnder(subject, hashes []byte) (key, all []byte) {
	if len(subject) <= longSubject {
		return subject, hashes
	}
	begin := len(hashes)
	for _, seed := range m.long {
		hashes = binary.NativeEndian.AppendUint64(hashes, maphash.Bytes(seed, subject))
	}
	return hashes[begin:], hashes
}

// shard is the counters under one lock.
type shard struct {
	sync.Mutex
	subjects    map[string][]cell // by keptUnder
	maxSubjects int               // number of subjects that fit
	grown       int               // subjects that were added, or did not fit, since the last sweep
	peak        int               // the most subjects since the map was made
	spilled     map[shareKey]counter
	seeds       bool // some counters are or were seeded
}

// cell is one counter of a subject.
type cell struct {
	tag     int64
	counter counter
	seeded  bool // holds only what Seed has set
}

// cell returns the cell of the rule's counter for a subject; nil if none exists.
// It is valid until the next counter is made.
func (s *shard) cell(subject []byte, r *store.Rule) *cell {
	tag, cells := r.Tag(), s.subjects[string(subject)]
	for i := range cells {
		if cells[i].tag == tag {
			return &cells[i]
		}
	}
	return nil
}

// find returns the rule's counter for a subject; nil if none exists.
func (s *shard) find(subject []byte, r *store.Rule) counter {
	if c := s.cell(subject, r); c != nil {
		return c.counter
	}
	return nil
}

// make adds a counter for the rule and a subject and returns it; nil if the
// subject does not fit.
func (s *shard) make(subject []byte, r *store.Rule) counter {
	cells, known := s.subjects[string(subject)]
	if !known {
		s.grown++
		if len(s.subjects) >= s.maxSubjects {
			return nil
		}
		s.peak = max(s.peak, len(s.subjects)+1)
	}
	c := zero[r.Method]()
	s.subjects[string(subject)] = append(cells, cell{tag: r.Tag(), counter: c})
	return c
}

// forget deletes the rule's counter for a subject.
func (s *shard) forget(subject []byte, r *store.Rule) {
	tag := r.Tag()
	cells := slices.DeleteFunc(s.subjects[string(subject)], func(c cell) bool { return c.tag == tag })
	if len(cells) == 0 {
		delete(s.subjects, string(subject))
		return
	}
	s.subjects[string(subject)] = cells
}
