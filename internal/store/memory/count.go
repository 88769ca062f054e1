package memory

import "github.com/koalagate/koalagate/internal/store"

// window is the counter of a count rule: the hits since it opened, and the
// instant at which it closes. It stays open if all of its hits are refunded.
type window struct {
	hits   int64 // -1 if the window is a ban
	opened int64 // with end, it identifies the window
	end    int64 // 0 if it never opened
}

// isOpen reports whether the window is open at now. It does not check when the
// window opened, so that it stays open if the clock steps back.
func (w *window) isOpen(now int64) bool { return now < w.end }

// hitsAt returns the number of hits in the window at now.
func (w *window) hitsAt(now int64) int64 {
	if w.isOpen(now) {
		return w.hits
	}
	return 0
}

// open makes the window one without hits that opens now.
func (w *window) open(now, end int64) { *w = window{opened: now, end: end} }

// count adds n hits to the window, which is open.
func (w *window) count(n int64) { w.hits += min(n, store.MaxCounter-w.hits) }

// subtract subtracts n hits from the window if it is open.
func (w *window) subtract(n, now int64) {
	if w.isOpen(now) {
		w.hits = max(w.hits-n, 0)
	}
}

func (w *window) read(r *store.Rule, t *moment, got *reading) {
	hits, end := w.hits, w.end
	switch {
	case !w.isOpen(t.now):
		hits, end = 0, windowEnd(r, t)
	case hits < 0:
		*got = banReading(r, end-t.now)
		return
	}
	need := needed(r)
	*got = reading{
		admits:    need <= r.Count-hits,
		limit:     r.Count,
		remaining: max(r.Count-hits, 0),
		reset:     end - t.now,
		retry:     end - t.now,
		hits:      hits,
	}
	if need > r.Count {
		got.retry = never
	}
}

func (w *window) add(r *store.Rule, t *moment) {
	if r.Weight == 0 || w.banned(t.now) {
		return
	}
	if !w.isOpen(t.now) {
		w.open(t.now, windowEnd(r, t))
	}
	w.count(r.Weight)
}

func (w *window) refund(r *store.Rule, t *moment) {
	if !w.banned(t.now) {
		w.subtract(r.Weight, t.now)
	}
}

func (w *window) banned(now int64) bool { return w.hits < 0 && w.isOpen(now) }

func (w *window) ban(end int64) { *w = window{hits: -1, end: end} }

// amend changes the hits of the window if it is still the one of the take.
func (w *window) amend(c *taken, n int64, t *moment) {
	switch {
	case w.opened != c.window.opened || w.end != c.window.end || w.hits < 0 || !w.isOpen(t.now):
	case n > 0:
		w.count(n)
	default:
		w.hits = max(w.hits+n, 0)
	}
}

func (w *window) giveBack(c *taken, t *moment) { w.takeBack(&c.window, t.now) }

// takeBack subtracts what a take counted if the window is still the same. A window
// that the take opened, and that holds nothing else, closes.
func (w *window) takeBack(c *takenHits, now int64) {
	if w.opened != c.opened || w.end != c.end || w.hits < 0 || !w.isOpen(now) {
		return
	}
	w.hits = max(w.hits-c.hits, 0)
	if c.opens && w.hits == 0 {
		*w = window{}
	}
}

func (w *window) save(s *saved)    { s.window = *w }
func (w *window) restore(s *saved) { *w = s.window }
func (w *window) clone() counter   { return new(*w) }

func (w *window) taken(c *taken, before *saved, _ *moment) { c.window = before.window.counted(w) }

// counted returns the hits that a take counted, which changed the window from w to after.
func (w *window) counted(after *window) takenHits {
	got := takenHits{hits: after.hits - w.hits, opened: after.opened, end: after.end}
	if w.opened != after.opened || w.end != after.end {
		got.hits, got.opens = after.hits, true
	}
	return got
}

func (w *window) untaken(c *taken, t *moment) {
	c.later = !w.isOpen(t.now)
	c.window.opened, c.window.end = w.opened, w.end
}

func (w *window) until() int64 { return w.end }

// windowEnd returns the instant at which a window of a count rule closes if it
// opens now.
func windowEnd(r *store.Rule, t *moment) int64 {
	if unit := r.Period(); unit.Unit != store.Seconds {
		return t.unitEnd(unit)
	}
	length := r.Time * 1000
	if r.Unit == store.Epoch {
		return t.now - t.now%length + length
	}
	return t.now + length
}
