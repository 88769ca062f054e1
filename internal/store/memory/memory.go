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

// shards is the number of locks over the counters. 64 of them fit in a word,
// so that the set of locks that a plan needs is one.
const shards = 64

// longSubject is the length in bytes up to which a subject is its own key.
const longSubject = 128

// Memory keeps the counters of this process. It is safe for concurrent use,
// and a plan is one atomic step over all of its counters.
//
// The identities that it keeps are bounded. A counter that still counts is
// never dropped for another one, so a full store makes nobody's limit fresh:
// identities beyond the bound share counters, see spill.
type Store struct {
	clock    func() int64
	calendar store.Calendar
	seed     maphash.Seed    // of the shards
	long     [2]maphash.Seed // of long subjects
	shards   [shards]shard
	steps    sync.Pool
	onFull   func()
	shared   atomic.Uint64 // what was counted on shared counters
	swept    atomic.Int64  // when a shard was last swept, by the clock of the plans
	turn     atomic.Uint32 // whose turn it is to be swept
}

var _ store.Store = (*Store)(nil)

// MemoryOptions are what a Memory can be told.
type Options struct {
	// Clock is the time in ms since the epoch for plans that bring none; nil
	// means the machine's.
	Clock func() int64
	// MaxIdentities bounds the identities that have counters of their own; 0
	// stands for DefaultMaxIdentities. They are spread over 64 parts with a
	// bound each, so a store may begin to share some percent below it.
	MaxIdentities int
	// OnFull is called, outside of all locks, with every plan that counted on a
	// shared counter. It must return at once.
	OnFull func()
}

// DefaultMaxIdentities is how many identities have counters of their own unless
// it is said. With a counter each they take some 150 MB, with several or leak
// counters more.
const DefaultMaxIdentities = 1_000_000

// NewMemory returns a store without any counters.
func New(o Options) *Store {
	m := &Store{clock: o.Clock, seed: maphash.MakeSeed(), long: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, onFull: o.OnFull}
	if o.MaxIdentities <= 0 {
		o.MaxIdentities = DefaultMaxIdentities
	}
	if m.clock == nil {
		m.clock = func() int64 { return time.Now().UnixMilli() }
	}
	for i := range m.shards {
		m.shards[i].subjects = make(map[string][]cell)
		m.shards[i].room = (o.MaxIdentities + shards - 1) / shards
	}
	m.steps.New = func() any { return &step{memory: m} }
	return m
}

// Close lets all counters go.
func (m *Store) Close() { m.Clear() }

// Clear forgets all counters.
func (m *Store) Clear() {
	for i := range m.shards {
		s := &m.shards[i]
		s.Lock()
		s.subjects, s.spilled, s.peak = make(map[string][]cell), nil, 0
		s.Unlock()
	}
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
}

// keptUnder is what the counters of a subject are kept under: itself, or of a long
// one 128 bits of hash, which go behind those in hashes, since callers choose how
// long a subject is. Nobody knows the seeds, and so can make none meet another.
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
	subjects map[string][]cell // by what they are kept under
	room     int               // for how many subjects
	grown    int               // subjects that came, or found no room, since the last sweep
	peak     int               // the most subjects since the map was made
	spilled  map[place]counter
	learns   bool // some counters are learnt, or were
}

// cell is one counter of a subject.
type cell struct {
	tag     int64
	counter counter
	learnt  bool // from another store, and nothing was counted on it since
}

// cell returns where the rule's counter for a subject is, nil if none is kept. It
// holds until the next counter is made.
func (s *shard) cell(subject []byte, r *store.Rule) *cell {
	tag, cells := r.Tag(), s.subjects[string(subject)]
	for i := range cells {
		if cells[i].tag == tag {
			return &cells[i]
		}
	}
	return nil
}

// find returns the rule's counter for a subject, nil if none is kept.
func (s *shard) find(subject []byte, r *store.Rule) counter {
	if c := s.cell(subject, r); c != nil {
		return c.counter
	}
	return nil
}

// make keeps a new counter for the rule and a subject, nil if there is no room
// for that.
func (s *shard) make(subject []byte, r *store.Rule) counter {
	cells, known := s.subjects[string(subject)]
	if !known {
		s.grown++
		if len(s.subjects) >= s.room {
			return nil
		}
		s.peak = max(s.peak, len(s.subjects)+1)
	}
	c := newCounter(r.Method)
	s.subjects[string(subject)] = append(cells, cell{tag: r.Tag(), counter: c})
	return c
}

// forget drops the rule's counter for a subject.
func (s *shard) forget(subject []byte, r *store.Rule) {
	tag := r.Tag()
	cells := slices.DeleteFunc(s.subjects[string(subject)], func(c cell) bool { return c.tag == tag })
	if len(cells) == 0 {
		delete(s.subjects, string(subject))
		return
	}
	s.subjects[string(subject)] = cells
}
