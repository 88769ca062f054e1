package memory

import (
	"context"
	"math/bits"
	"slices"

	"github.com/koalagate/koalagate/internal/store"
)

// undo is what Cancel needs to know of a take that waits. It refers to the counters
// themselves: what a reset or the end of a counter has dropped since is out of reach.
type undo struct {
	locks  uint64 // the shards of the counters, a bit each
	counts []taken
}

// taken is what a take counted on one counter.
type taken struct {
	rule    store.Rule
	counter counter
	window  takenHits // token: hits is the number of units
	second  takenHits // base: of the second window
	at      int64     // leak: the instant of the run; token: that of the level
	level   int64     // token: before the take
}

// takenHits are hits of one window, which opened and end identify.
type takenHits struct {
	hits, opened, end int64
	opens             bool // the take opened the window
}

// taken returns the hits that a take counted, which changed the window from w to after.
func (w *window) taken(after *window) takenHits {
	got := takenHits{hits: after.hits - w.hits, opened: after.opened, end: after.end}
	if w.opened != after.opened || w.end != after.end {
		got.hits, got.opens = after.hits, true
	}
	return got
}

// record counts the rule's weight on c and keeps what the take counted, in case it
// waits.
func (s *step) record(r *store.Rule, c counter) {
	var before saved
	before.save(c)
	c.add(r, &s.at)
	got := taken{rule: *r, counter: c}
	got.rule.Subject = nil // the caller's
	switch after := c.(type) {
	case *window:
		got.window = before.window.taken(after)
	case *daily:
		got.window, got.second = before.daily.today.taken(&after.today), before.daily.second.taken(&after.second)
	case *slide:
		_, hits := before.slide.live(r, s.at.now)
		_, now := after.live(r, s.at.now)
		got.window.hits, got.at = now-hits, after.newest.at
	case *bucket:
		got.level, got.at = before.bucket.levelAt(r, s.at.now), after.at
		got.window.hits = got.level - after.levelAt(r, s.at.now)
	}
	s.taken = append(s.taken, got)
}

// taking returns what Cancel needs to know of the take.
func (s *step) taking() *undo { return &undo{locks: s.locked, counts: slices.Clone(s.taken)} }

// Cancel gives back what a take counted that waits for its turn, at the clock of the
// plan. It is safe to call for answers of any plan; nothing is given back for those
// without Undo.
func (m *Store) Cancel(ctx context.Context, p *store.Plan, a *store.Answers) error {
	u, waits := a.Undo.(*undo)
	if !waits {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	a.Undo = nil
	for left := u.locks; left != 0; left &= left - 1 {
		m.shards[bits.TrailingZeros64(left)].Lock()
	}
	defer func() {
		for left := u.locks; left != 0; left &= left - 1 {
			m.shards[bits.TrailingZeros64(left)].Unlock()
		}
	}()
	t := new(moment)
	*t = m.moment(p)
	for i := len(u.counts) - 1; i >= 0; i-- { // the last first, as it was counted
		if c := &u.counts[i]; !c.counter.banned(t.now) {
			c.counter.giveBack(c, t)
		}
	}
	return nil
}
