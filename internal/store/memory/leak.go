package memory

import (
	"sort"

	"github.com/koalagate/koalagate/internal/store"
)

// slide is the counter of a leak rule: runs of hits, oldest first. A run holds
// no weight but the number of all hits ever counted up to its end, so that the
// hits between any two runs are one subtraction, and where enough hits are out
// or given back is a binary search. The numbers go round at 2^53.
type slide struct {
	before int64 // all hits up to the oldest run
	older  []run // all runs but the newest; never changed below len, see refund
	newest run   // at is 0 if there is none
	gone   int64 // when the newest run is out
}

// run is the hits of one millisecond.
type run struct {
	at   int64 // ms since the epoch
	upTo int64
}

// round is where the numbers of hits begin again at 0. Fewer than round hits
// are ever kept, so differences are exact, in a double too.
const round = store.MaxCounter + 1

const (
	// spareRuns is how many runs a counter has beyond its limit, where take
	// never comes but update does. Further hits join the newest run.
	spareRuns = 1024
	// maxRuns bounds the runs of any counter, since a string in Redis is
	// bounded. No rule needs as many that check does not warn of.
	maxRuns = 1 << 24
)

func (s *slide) runs() int {
	if s.newest.at == 0 {
		return 0
	}
	return len(s.older) + 1
}

func (s *slide) run(i int) run {
	if i < len(s.older) {
		return s.older[i]
	}
	return s.newest
}

// upTo is the number of all hits before the run i.
func (s *slide) upTo(i int) int64 {
	if i == 0 {
		return s.before
	}
	return s.run(i - 1).upTo
}

// between is the number of hits from one number to a later one.
func between(from, to int64) int64 {
	if to < from {
		return to - from + round
	}
	return to - from
}

// forward is the number n hits after from.
func forward(from, n int64) int64 {
	if from >= round-n {
		return from - (round - n)
	}
	return from + n
}

// live returns the first run that is not out at now, and the hits from there.
// From the instant on at which the rule that counted last sees none, there are
// none, whatever this rule says: Redis may have dropped them by then.
func (s *slide) live(r *store.Rule, now int64) (first int, hits int64) {
	n := s.runs()
	if n == 0 {
		return 0, 0
	}
	out := now - r.Time*1000
	if s.newest.at <= out || now >= s.gone {
		return n, 0
	}
	if s.run(0).at <= out {
		first = sort.Search(n-1, func(i int) bool { return s.run(i).at > out })
	}
	return first, between(s.upTo(first), s.newest.upTo)
}

func (s *slide) look(r *store.Rule, t moment) reading {
	first, hits := s.live(r, t.now)
	got := reading{
		admits:    hits+r.Weight <= r.Count,
		limit:     r.Count,
		remaining: max(r.Count-hits, 0),
		retry:     Never,
		hits:      hits,
	}
	if hits > 0 {
		got.reset = s.newest.at + r.Time*1000 - t.now
	}
	if !got.admits && r.Weight <= r.Count {
		i := s.reaching(first, hits+r.Weight-r.Count)
		got.retry = s.run(i).at + r.Time*1000 - t.now
	}
	return got
}

// reaching is the first run from first on with which n hits are together.
func (s *slide) reaching(first int, n int64) int {
	from := s.upTo(first)
	return first + sort.Search(s.runs()-1-first, func(i int) bool {
		return between(from, s.run(first+i).upTo) >= n
	})
}

func (s *slide) add(r *store.Rule, t moment) {
	if r.Weight == 0 {
		return
	}
	hits := s.prune(r, t.now)
	upTo := forward(s.newestUpTo(), min(r.Weight, store.MaxCounter-hits))
	at := max(t.now, s.newest.at)
	switch {
	case s.newest.at == 0:
		s.newest = run{at, upTo}
	case at == s.newest.at, int64(s.runs()) >= min(r.Count+spareRuns, maxRuns):
		// Hits that join a run take it along to their own instant: they
		// stay for as long as they must, those before them for longer.
		s.newest = run{at, upTo}
	default:
		s.older = append(s.older, s.newest)
		s.newest = run{at, upTo}
	}
	s.gone = s.newest.at + r.Time*1000
}

func (s *slide) newestUpTo() int64 {
	if s.newest.at == 0 {
		return s.before
	}
	return s.newest.upTo
}

// prune forgets the runs that are out and returns the hits that are left.
func (s *slide) prune(r *store.Rule, now int64) int64 {
	first, hits := s.live(r, now)
	switch {
	case hits == 0:
		*s = slide{}
	case first > 0:
		s.before = s.upTo(first)
		s.older = s.older[first:]
	}
	return hits
}

func (s *slide) refund(r *store.Rule, t moment) {
	if r.Weight == 0 {
		return
	}
	hits := s.prune(r, t.now)
	left := hits - r.Weight
	if left <= 0 {
		*s = slide{}
		return
	}
	last := s.reaching(0, left)
	s.newest = run{s.run(last).at, forward(s.before, left)}
	// The capacity ends with the length, so that the next run is appended to
	// a copy: whoever saved this slide still sees the runs behind it.
	s.older = s.older[:last:last]
	s.gone = s.newest.at + r.Time*1000
}

func (s *slide) until() int64 { return s.gone }
