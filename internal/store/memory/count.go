package memory

import "github.com/koalagate/koalagate/internal/store"

// window is the counter of a count rule: the hits since it opened, and the
// instant at which it closes. A window that was refunded to no hits is open.
type window struct {
	hits int64
	end  int64 // 0 if it never opened
}

// open tells whether the window is open at now. It does not ask when it
// opened, so that a clock that steps back finds it open.
func (w *window) open(now int64) bool { return now < w.end }

// counted is the number of hits in the window at now.
func (w *window) counted(now int64) int64 {
	if w.open(now) {
		return w.hits
	}
	return 0
}

// put counts n hits in the window and opens it until end if it is closed.
func (w *window) put(n, now, end int64) {
	if n == 0 {
		return
	}
	if !w.open(now) {
		w.hits, w.end = 0, end
	}
	w.hits = min(w.hits+n, store.MaxCounter)
}

// take gives n hits of the open window back.
func (w *window) take(n, now int64) {
	if w.open(now) {
		w.hits = max(w.hits-n, 0)
	}
}

func (w *window) look(r *store.Rule, t moment) reading {
	hits := w.counted(t.now)
	end := w.end
	if !w.open(t.now) {
		end = closes(r, t)
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
		got.retry = Never
	}
	return got
}

func (w *window) add(r *store.Rule, t moment) { w.put(r.Weight, t.now, closes(r, t)) }

func (w *window) refund(r *store.Rule, t moment) { w.take(r.Weight, t.now) }

func (w *window) until() int64 { return w.end }

// closes is when a window of a count rule closes that opens now.
func closes(r *store.Rule, t moment) int64 {
	if r.Time == store.Day {
		return t.dayEnd
	}
	return t.now + r.Time*1000
}
