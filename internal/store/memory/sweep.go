package memory

import "maps"

const (
	// sweepFrom is the number of subjects from which a growing shard is swept.
	sweepFrom = 64
	// checksPerNew is the number of subjects that a growing shard checks for each
	// new one. With 4, at most a quarter of the subjects of a shard under load
	// have ended.
	checksPerNew = 4
	// linger is how long counters are kept beyond their end, in ms, in case the
	// clock steps back a little.
	linger = 60_000
	// sweepEvery is the interval in ms at which one of the shards is swept,
	// whether it grows or not. Each such sweep checks samples of sampleSize subjects,
	// up to checksPerSweep, and stops at a sample of which none has ended. Over all
	// shards that is 25,000 checks per second if many have ended, and 1,600 if none has:
	// a check of a large store takes a microsecond, because nothing of it is in a cache.
	sweepEvery     = 10
	checksPerSweep = 256
	sampleSize     = 16
	// sweepAnyFrom is the number of subjects from which a shard is swept that does
	// not grow. Fewer stay, in case the clock steps back further than linger.
	sweepAnyFrom = 8
	// maxRemade is the largest number of subjects for which a map that once held
	// more than eight times as many is replaced by a smaller one: maps never
	// shrink.
	maxRemade = 2048
)

// sweep sweeps the next shard if sweepEvery has passed. It needs no goroutine: a
// store that is not called does not grow.
func (m *Store) sweep(now int64) {
	last := m.swept.Load()
	if now >= last && now < last+sweepEvery || !m.swept.CompareAndSwap(last, now) {
		return
	}
	m.receipts.sweep(now)
	s := &m.shards[m.turn.Add(1)%shards]
	if !s.TryLock() {
		return // the shard is in use, and is swept anyway when it grows
	}
	defer s.Unlock()
	if len(s.subjects) >= sweepAnyFrom || len(s.spilled) > 0 {
		for checks := 0; checks < checksPerSweep && s.dropEnded(now, sampleSize) > 0; {
			checks += sampleSize
		}
	}
	if len(s.subjects) <= maxRemade && len(s.subjects) < s.peak/8 && s.peak > sweepFrom {
		left := make(map[string][]cell, len(s.subjects)) // maps.Clone would be as large
		maps.Copy(left, s.subjects)
		s.subjects, s.peak = left, len(left)
	}
}

// sweep checks subjects in proportion to the number that the shard has grown by
// since the last sweep, and drops the subjects that have ended. So active counters bound
// the memory, and no sweep holds the lock for long.
func (s *shard) sweep(now int64) {
	checks := min(s.grown, sweepFrom) * checksPerNew
	s.grown = 0
	if len(s.subjects) >= min(sweepFrom, s.maxSubjects) {
		s.dropEnded(now, checks)
	}
}

// dropEnded checks up to n subjects and up to n shared counters, chosen at random,
// drops the ones that have ended, and returns their number.
func (s *shard) dropEnded(now int64, n int) (dropped int) {
	left := n
	for subject, cells := range s.subjects { // starts at a random element
		if allEnded(cells, now) {
			delete(s.subjects, subject)
			dropped++
		}
		if left--; left <= 0 {
			break
		}
	}
	left = n
	for place, c := range s.spilled {
		if ended(c, now) {
			delete(s.spilled, place)
			dropped++
		}
		if left--; left <= 0 {
			break
		}
	}
	return dropped
}

// allEnded reports whether all of a subject's counters have ended.
func allEnded(cells []cell, now int64) bool {
	for _, c := range cells {
		if !ended(c.counter, now) {
			return false
		}
	}
	return true
}

// ended reports whether c ended at least linger ago.
func ended(c counter, now int64) bool { return c.until()+linger <= now }
