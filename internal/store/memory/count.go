package memory

import "github.com/koalagate/koalagate/internal/store"

// window is the counter of a count rule: the hits since it opened, and the
// instant at which it closes. It stays open if all of its hits are refunded.
type window struct {
	hits int64
	end  int64 // 0 if it never opened
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

// count adds n hits to the window and opens it until end if it is closed.
func (w *window) count(n, now, end int64) {
	if n == 0 {
		return
	}
	if !w.isOpen(now) {
		w.hits, w.end = 0, end
	}
	w.hits = min(w.hits+n, store.MaxCounter)
}

// giveBack subtracts n hits from the window if it is open.
func (w *window) giveBack(n, now int64) {
	if w.isOpen(now) {
		w.hits = max(w.hits-n, 0)
	}
}

func (w *window) read(r *store.Rule, t moment) reading {
	hits := w.hitsAt(t.now)
	end := w.end
	if !w.isOpen(t.now) {
		end = windowEnd(r, t)
	}
	got := reading{
		admits:    hits+r.Weight <= r.Count,
		limit:     r.Count,
		remaining: max(r.Count-hits, 0),
		reset:     end - t.now,
		retry:     end - t.now,
		hits:      hits,
	}
	if r.Weight > r.Count {
		got.retry = never
	}
	return got
}

func (w *window) add(r *store.Rule, t moment) { w.count(r.Weight, t.now, windowEnd(r, t)) }

func (w *window) refund(r *store.Rule, t moment) { w.giveBack(r.Weight, t.now) }

func (w *window) until() int64 { return w.end }

// windowEnd returns the instant at which a window of a count rule closes if it
// opens now.
func windowEnd(r *store.Rule, t moment) int64 {
	if r.Time == store.Day {
		return t.dayEnd
	}
	return t.now + r.Time*1000
}
