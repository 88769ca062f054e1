package memory

import (
	"slices"
	"sort"

	"github.com/koalagate/koalagate/internal/store"
)

// holds is the counter of a hold rule: the weight that is held, by the instants at which
// it runs out. Holds that run out in the same millisecond are one run. Runs lie in chunks
// with their sums, so that 100,000 holders of one identity cost a take no more than a
// few hundred steps.
type holds struct {
	chunks []chunk // none is empty
	sum    int64   // of the chunks
}

// chunk is some runs, the first to end first, and their sum.
type chunk struct {
	sum  int64
	runs []held
}

// held is weight that runs out at an instant.
type held struct {
	until int64 // ms since the epoch
	n     int64
}

// maxChunk is the number of runs from which a chunk is split.
const maxChunk = 512

// last returns the run of the chunk that ends last.
func (c *chunk) last() *held { return &c.runs[len(c.runs)-1] }

// live returns the weight that is held at now, and the first run of it: the index of its
// chunk and its index there.
func (h *holds) live(now int64) (n int64, at, first int) {
	n = h.sum
	for at < len(h.chunks) && h.chunks[at].last().until <= now {
		n -= h.chunks[at].sum
		at++
	}
	if at < len(h.chunks) {
		runs := h.chunks[at].runs
		for runs[first].until <= now {
			n -= runs[first].n
			first++
		}
	}
	return n, at, first
}

func (h *holds) read(r *store.Rule, t *moment, got *reading) {
	n, at, first := h.live(t.now)
	*got = reading{
		admits:    r.Weight <= r.Count-n && (!t.full || r.Weight == 0),
		limit:     r.Count,
		remaining: max(r.Count-n, 0),
		retry:     never,
		hits:      n,
	}
	if n > 0 {
		got.reset = h.until() - t.now
	}
	if missing := r.Weight - (r.Count - n); missing > 0 && r.Weight <= r.Count {
		got.retry = h.freeing(missing, at, first) - t.now
	}
}

// freeing returns the instant at which the weight n has run out, of the runs from there
// on.
func (h *holds) freeing(n int64, at, first int) int64 {
	for ; at < len(h.chunks); at++ {
		c := &h.chunks[at]
		if first == 0 && c.sum < n {
			n -= c.sum
			continue
		}
		for _, one := range c.runs[first:] {
			if n -= one.n; n <= 0 {
				return one.until
			}
		}
		first = 0
	}
	return h.until()
}

// add holds the rule's weight for its time, and drops what has run out.
func (h *holds) add(r *store.Rule, t *moment) {
	if r.Weight > 0 {
		h.prune(t.now)
		h.insert(held{t.now + r.Time*1000, r.Weight})
	}
}

// prune drops the runs that have ended at now.
func (h *holds) prune(now int64) {
	n, at, first := h.live(now)
	h.sum = n
	h.chunks = slices.Delete(h.chunks, 0, at)
	if first > 0 {
		c := &h.chunks[0]
		for _, one := range c.runs[:first] {
			c.sum -= one.n
		}
		c.runs = slices.Delete(c.runs, 0, first)
	}
}

// find returns the place of the first run that does not end before an instant: the index
// of its chunk, or of the last chunk, and its index there.
func (h *holds) find(until int64) (at, i int) {
	at = sort.Search(len(h.chunks)-1, func(i int) bool { return h.chunks[i].last().until >= until })
	runs := h.chunks[at].runs
	return at, sort.Search(len(runs), func(i int) bool { return runs[i].until >= until })
}

// insert adds weight that runs out at an instant.
func (h *holds) insert(one held) {
	h.sum += one.n
	if len(h.chunks) == 0 {
		h.chunks = append(h.chunks, chunk{sum: one.n, runs: []held{one}})
		return
	}
	at, i := h.find(one.until)
	c := &h.chunks[at]
	c.sum += one.n
	if i < len(c.runs) && c.runs[i].until == one.until {
		c.runs[i].n += one.n
		return
	}
	if c.runs = slices.Insert(c.runs, i, one); len(c.runs) < maxChunk {
		return
	}
	half := c.runs[maxChunk/2:]
	if i == len(c.runs)-1 {
		half = c.runs[i:] // time goes on: the former chunk stays as full as it is
	}
	later := chunk{runs: slices.Clone(half)}
	for _, run := range half {
		later.sum += run.n
	}
	c.sum -= later.sum
	c.runs = slices.Delete(c.runs, len(c.runs)-len(half), len(c.runs))
	h.chunks = slices.Insert(h.chunks, at+1, later)
}

// release frees weight that was to run out at an instant, as far as it is there, and
// returns how much that was.
func (h *holds) release(one held) int64 {
	if len(h.chunks) == 0 {
		return 0
	}
	at, i := h.find(one.until)
	c := &h.chunks[at]
	if i == len(c.runs) || c.runs[i].until != one.until {
		return 0
	}
	n := min(one.n, c.runs[i].n)
	c.sum, h.sum = c.sum-n, h.sum-n
	if c.runs[i].n -= n; c.runs[i].n > 0 {
		return n
	}
	if c.runs = slices.Delete(c.runs, i, i+1); len(c.runs) == 0 {
		h.chunks = slices.Delete(h.chunks, at, at+1)
	}
	return n
}

// refund does not concern holds.
func (h *holds) refund(*store.Rule, *moment) {}

func (h *holds) banned(int64) bool { return false }

func (h *holds) ban(int64) {}

// amend does not concern holds, whose weight no settlement changes.
func (h *holds) amend(*taken, int64, *moment) {}

// giveBack ends the hold of a take.
func (h *holds) giveBack(c *taken, _ *moment) { h.release(held{c.at, c.rule.Weight}) }

// seed holds what another store reports, so that the weight fits when it states.
func (h *holds) seed(r *store.Rule, a *store.Answer, t *moment) {
	n := a.Limit - a.Remaining
	*h = holds{}
	if n <= 0 || a.Reset <= 0 {
		return
	}
	first := n - (r.Count - r.Weight)
	if a.Retry <= 0 || a.Retry >= a.Reset || first <= 0 || first >= n {
		h.insert(held{t.now + a.Reset, n})
		return
	}
	h.insert(held{t.now + a.Retry, first})
	h.insert(held{t.now + a.Reset, n - first})
}

// raise holds as much as the state reports, the rest of it until its end.
func (h *holds) raise(_ *store.Rule, s *state, t *moment) {
	if n, _, _ := h.live(t.now); n < s.hits && s.until > t.now {
		h.insert(held{s.until, s.hits - n})
	}
}

func (h *holds) save(*saved)    {}
func (h *holds) restore(*saved) {}

func (h *holds) taken(c *taken, _ *saved, t *moment) { c.at = t.now + c.rule.Time*1000 }

func (h *holds) untaken(*taken, *moment) {}

func (h *holds) until() int64 {
	if len(h.chunks) == 0 {
		return 0
	}
	return h.chunks[len(h.chunks)-1].last().until
}

func (h *holds) clone() counter {
	c := &holds{slices.Clone(h.chunks), h.sum}
	for i := range c.chunks {
		c.chunks[i].runs = slices.Clone(c.chunks[i].runs)
	}
	return c
}
