package memory

import (
	"slices"
	"sort"

	"github.com/koalagate/koalagate/internal/store"
)

// slide is the counter of a leak rule: runs of hits, oldest first. A run does not
// store its own hits but the number of all hits ever counted up to its end. So
// the hits between two runs are one subtraction, and a binary search finds the
// run at which enough hits have left or were given back. The numbers wrap around
// at 2^53.
type slide struct {
	before int64 // number of all hits before the oldest run; -1 if the slide is a ban
	older  []run // all runs except the newest; elements are never changed, see refund
	newest run   // at is 0 if there is none
	gone   int64 // the instant at which the newest run leaves, or the ban ends
}

// run is the hits of one millisecond.
type run struct {
	at   int64 // ms since the epoch
	upTo int64 // number of all hits up to its end
}

// round is the number of hits at which the numbers wrap around to 0. A counter
// always keeps fewer hits than that, so differences are exact, as doubles too.
const round = store.MaxCounter + 1

const (
	// spareRuns is the number of runs that a counter may keep beyond its limit,
	// which Update exceeds and Take does not. Further hits join the newest run.
	spareRuns = 1024
	// maxRuns bounds the runs of any counter, because a string in Redis is
	// bounded. The check of rules warns about rules that need more.
	maxRuns = 1 << 24
)

// runs returns the number of runs.
func (s *slide) runs() int {
	if s.newest.at == 0 {
		return 0
	}
	return len(s.older) + 1
}

// run returns the run i.
func (s *slide) run(i int) run {
	if i < len(s.older) {
		return s.older[i]
	}
	return s.newest
}

// upTo returns the number of all hits before the run i.
func (s *slide) upTo(i int) int64 {
	if i == 0 {
		return s.before
	}
	return s.run(i - 1).upTo
}

// between returns the number of hits from one number to a later one.
func between(from, to int64) int64 {
	if to < from {
		return to - from + round
	}
	return to - from
}

// forward returns the number that follows from by n hits.
func forward(from, n int64) int64 {
	if from >= round-n {
		return from - (round - n)
	}
	return from + n
}

// back returns the number that precedes upTo by n hits.
func back(upTo, n int64) int64 {
	if upTo < n {
		return upTo - n + round
	}
	return upTo - n
}

// live returns the first run that has not left at now, and the hits from there
// on. None remain from the instant gone on, which the time of the rule that
// counted last sets, even if r has a longer time: Redis may have dropped the
// counter by then.
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

func (s *slide) read(r *store.Rule, t *moment, got *reading) {
	if s.banned(t.now) {
		*got = banReading(r, s.gone-t.now)
		return
	}
	first, hits := s.live(r, t.now)
	need := needed(r)
	*got = reading{
		admits:    need <= r.Count-hits,
		limit:     r.Count,
		remaining: max(r.Count-hits, 0),
		retry:     never,
		hits:      hits,
	}
	if hits > 0 {
		got.reset = s.newest.at + r.Time*1000 - t.now
	}
	if !got.admits && need <= r.Count {
		i := s.reaching(first, hits-(r.Count-need))
		got.retry = s.run(i).at + r.Time*1000 - t.now
	}
}

// reaching returns the first run at which the hits from the run first on add up
// to n.
func (s *slide) reaching(first int, n int64) int {
	from := s.upTo(first)
	return first + sort.Search(s.runs()-1-first, func(i int) bool {
		return between(from, s.run(first+i).upTo) >= n
	})
}

func (s *slide) add(r *store.Rule, t *moment) {
	if r.Weight == 0 || s.banned(t.now) {
		return
	}
	hits := s.prune(r, t.now)
	upTo := forward(s.newestUpTo(), min(r.Weight, store.MaxCounter-hits))
	at := max(t.now, s.newest.at)
	switch {
	case s.newest.at == 0:
		s.newest = run{at, upTo}
	case at == s.newest.at, int64(s.runs()) >= min(r.Count+spareRuns, maxRuns):
		// The joined run moves to the instant of the new hits: these stay for
		// their full time, the earlier ones for longer.
		s.newest = run{at, upTo}
	default:
		s.older = append(s.older, s.newest)
		s.newest = run{at, upTo}
	}
	s.gone = s.newest.at + r.Time*1000
}

// newestUpTo returns the number of all hits ever counted.
func (s *slide) newestUpTo() int64 {
	if s.newest.at == 0 {
		return s.before
	}
	return s.newest.upTo
}

// prune drops the runs that have left and returns the number of hits that remain.
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

func (s *slide) refund(r *store.Rule, t *moment) {
	if r.Weight == 0 || s.before < 0 {
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
	// The capacity is cut to the length, so that the next append copies: a saved
	// copy of this slide still refers to the runs that follow.
	s.older = s.older[:last:last]
	s.gone = s.newest.at + r.Time*1000
}

func (s *slide) banned(now int64) bool { return s.before < 0 && now < s.gone }

func (s *slide) ban(end int64) { *s = slide{before: -1, gone: end} }

func (s *slide) giveBack(c *taken, t *moment) { s.amend(c, -c.window.hits, t) }

// amend adds n hits to the run of the take's instant, or subtracts them as far as they
// are there. The run may have left since, or joined another one: then nothing changes.
func (s *slide) amend(c *taken, change int64, t *moment) {
	if s.before < 0 {
		return
	}
	first, hits := s.live(&c.rule, t.now)
	n := s.runs()
	if hits == 0 {
		return
	}
	at := first + sort.Search(n-first, func(i int) bool { return s.run(first+i).at >= c.at })
	if at == n || s.run(at).at != c.at {
		return
	}
	of := between(s.upTo(at), s.run(at).upTo)
	change = max(min(change, store.MaxCounter-hits), -of)
	s.before = s.upTo(first)
	left := make([]run, 0, n-first) // elements are never changed
	for i := first; i < n; i++ {
		one := s.run(i)
		if i >= at {
			one.upTo = moved(one.upTo, change)
		}
		if i != at || of+change > 0 {
			left = append(left, one)
		}
	}
	if len(left) == 0 {
		*s = slide{}
		return
	}
	last := len(left) - 1
	s.older, s.newest = left[:last:last], left[last]
	s.gone = s.newest.at + c.rule.Time*1000
}

// moved returns the number that follows from by n hits, or precedes it by -n hits.
func moved(from, n int64) int64 {
	if n < 0 {
		return back(from, -n)
	}
	return forward(from, n)
}

func (s *slide) save(to *saved)      { to.slide = *s }
func (s *slide) restore(from *saved) { *s = from.slide }

func (s *slide) clone() counter {
	one := *s
	one.older = slices.Clip(one.older) // its elements are never changed; an append copies them
	return &one
}

func (s *slide) taken(c *taken, before *saved, t *moment) {
	_, hits := before.slide.live(&c.rule, t.now)
	_, now := s.live(&c.rule, t.now)
	c.window.hits, c.at = now-hits, s.newest.at
}

func (s *slide) untaken(*taken, *moment) {}

func (s *slide) until() int64 { return s.gone }
