package memory

import "maps"

const (
	// sweepFrom is the number of subjects below which a shard is left alone.
	sweepFrom = 64
	// sweepEach is how many subjects are looked at for each new one. With 4,
	// at most a quarter of a shard under load has nothing to say any more.
	sweepEach = 4
	// linger is for how long counters outlive their end, in ms: for a clock
	// that steps back a little.
	linger = 60_000
	// sweepEvery is how often one of the shards is swept, whether or not it
	// grows, in ms; sweepAtOnce is how many subjects are looked at then: some
	// ten microseconds. All shards together see 25,000 looks a second.
	sweepEvery  = 10
	sweepAtOnce = 256
	// sweepAtAll is the number of subjects below which even that leaves a shard
	// alone: few counters stay, for a clock that steps back further than linger.
	sweepAtAll = 8
	// fewLeft is up to how many subjects a map is made anew for, when they are
	// what an eighth of it or more was made for: maps never shrink.
	fewLeft = 2048
)

// sweep has the next shard swept, if it is time. There is no goroutine for it:
// a store that nobody calls does not grow.
func (m *Store) sweep(now int64) {
	last := m.swept.Load()
	if now >= last && now < last+sweepEvery || !m.swept.CompareAndSwap(last, now) {
		return
	}
	s := &m.shards[m.turn.Add(1)%shards]
	if !s.TryLock() {
		return // it is in use, and sweeps itself where it grows
	}
	defer s.Unlock()
	if len(s.subjects) >= sweepAtAll || len(s.spilled) > 0 {
		s.look(now, sweepAtOnce)
	}
	if len(s.subjects) <= fewLeft && len(s.subjects) < s.peak/8 && s.peak > sweepFrom {
		left := make(map[string][]cell, len(s.subjects)) // maps.Clone would be as large
		maps.Copy(left, s.subjects)
		s.subjects, s.peak = left, len(left)
	}
}

// sweep forgets some of the subjects on which nothing is counted any more, as
// many as the shard has grown by since the last time. So memory is bounded by
// what is in use, without a long hold of the lock.
func (s *shard) sweep(now int64) {
	left := min(s.grown, sweepFrom) * sweepEach
	s.grown = 0
	if len(s.subjects) >= min(sweepFrom, s.room) {
		s.look(now, left)
	}
}

// look looks at so many subjects, and shared counters, and drops those on which
// nothing is counted any more.
func (s *shard) look(now int64, many int) {
	left := many
	for subject, cells := range s.subjects { // begins anywhere
		if stale(cells, now) {
			delete(s.subjects, subject)
		}
		if left--; left <= 0 {
			break
		}
	}
	left = many
	for place, c := range s.spilled {
		if over(c, now) {
			delete(s.spilled, place)
		}
		if left--; left <= 0 {
			break
		}
	}
}

func stale(cells []cell, now int64) bool {
	for _, c := range cells {
		if !over(c.counter, now) {
			return false
		}
	}
	return true
}

// over tells whether nothing is counted on c any more, even by a clock that
// steps back a little.
func over(c counter, now int64) bool { return c.until()+linger <= now }
