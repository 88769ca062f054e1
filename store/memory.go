package store

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"time"
)

// shards is the number of locks over the counters. 64 of them fit in a word,
// so that the set of locks that a plan needs is one.
const shards = 64

// Memory keeps the counters of this process. It is safe for concurrent use,
// and a plan is one atomic step over all of its counters.
type Memory struct {
	clock    func() int64
	calendar calendar
	seed     maphash.Seed
	shards   [shards]shard
	steps    sync.Pool
}

var _ Store = (*Memory)(nil)

// MemoryOptions are what a Memory can be told.
type MemoryOptions struct {
	// Clock is the time in ms since the epoch for plans that bring none; nil
	// means the machine's.
	Clock func() int64
}

// NewMemory returns a store without any counters.
func NewMemory(o MemoryOptions) *Memory {
	m := &Memory{clock: o.Clock, seed: maphash.MakeSeed()}
	if m.clock == nil {
		m.clock = func() int64 { return time.Now().UnixMilli() }
	}
	for i := range m.shards {
		m.shards[i].subjects = make(map[string][]cell)
	}
	m.steps.New = func() any { return &step{memory: m} }
	return m
}

// Close lets all counters go.
func (m *Memory) Close() { m.Clear() }

// Clear forgets all counters.
func (m *Memory) Clear() {
	for i := range m.shards {
		s := &m.shards[i]
		s.Lock()
		s.subjects = make(map[string][]cell)
		s.Unlock()
	}
}

// Evaluate carries out the plan as one atomic step and fills a.
func (m *Memory) Evaluate(ctx context.Context, p *Plan, a *Answers) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := p.check(); err != nil {
		return err
	}
	s := m.steps.Get().(*step)
	defer m.steps.Put(s)
	s.begin(p)
	defer s.end()
	a.reset(len(p.Sets))
	a.Now = s.at.now
	s.decide(a)
	return nil
}

// shard is the counters under one lock.
type shard struct {
	sync.Mutex
	subjects map[string][]cell
	grown    int // subjects that are new since the last sweep
}

// cell is one counter of a subject.
type cell struct {
	tag     int64
	counter counter
}

// tag names a rule's counter within a subject. It is part of the layout in
// Redis.
func (r *Rule) tag() int64 { return r.Return*8 + int64(r.Method) }

// find returns the rule's counter, nil if none is kept.
func (s *shard) find(r *Rule) counter {
	tag := r.tag()
	for _, c := range s.subjects[string(r.Subject)] {
		if c.tag == tag {
			return c.counter
		}
	}
	return nil
}

// make keeps a new counter for the rule.
func (s *shard) make(r *Rule) counter {
	c := newCounter(r.Method)
	cells, known := s.subjects[string(r.Subject)]
	if !known {
		s.grown++
	}
	s.subjects[string(r.Subject)] = append(cells, cell{r.tag(), c})
	return c
}

// forget drops the rule's counter.
func (s *shard) forget(r *Rule) {
	subject, tag := string(r.Subject), r.tag()
	cells := slices.DeleteFunc(s.subjects[subject], func(c cell) bool { return c.tag == tag })
	if len(cells) == 0 {
		delete(s.subjects, subject)
		return
	}
	s.subjects[subject] = cells
}

const (
	// sweepFrom is the number of subjects below which a shard is left alone.
	sweepFrom = 64
	// sweepEach is how many subjects are looked at for each new one. With 4,
	// at most a quarter of a shard under load has nothing to say any more.
	sweepEach = 4
	// linger is for how long counters outlive their end, in ms: for a clock
	// that steps back a little.
	linger = 60_000
)

// sweep forgets some of the subjects on which nothing is counted any more, as
// many as the shard has grown by since the last time. So memory is bounded by
// what is in use, without a goroutine and without a long hold of the lock.
func (s *shard) sweep(now int64) {
	left := min(s.grown, sweepFrom) * sweepEach
	s.grown = 0
	if len(s.subjects) < sweepFrom {
		return
	}
	for subject, cells := range s.subjects { // begins anywhere
		if stale(cells, now) {
			delete(s.subjects, subject)
		}
		if left--; left <= 0 {
			return
		}
	}
}

func stale(cells []cell, now int64) bool {
	for _, c := range cells {
		if c.counter.until()+linger > now {
			return false
		}
	}
	return true
}
