package machine

import (
	"slices"
	"time"

	"github.com/koalagate/koalagate/internal/store"
)

// tally holds what was counted for a rule and a subject.
type tally struct {
	number int        // of the tallies made
	hits   []hits     // count: of the window; base: of today; leak: of the sliding time
	opened int64      // count, base: beginning of that window
	closes int64      // count, base: end of that window; leak: when the newest hit leaves
	second []hits     // base: of the second window
	begun  int64      // base: beginning of that one
	until  int64      // base: end of that one
	bucket level      // token
	banned int64      // the end of the ban
	held   []*holding // hold
}

// hits are n hits that were counted at the same instant.
type hits struct{ at, n int64 }

// instant is when a plan is evaluated, and how.
type instant struct {
	now, patience int64
	zone          *time.Location
	update        bool // whatever fits
}

func (e *evaluation) instant() instant {
	return instant{e.p.Now, e.p.Patience, e.p.Zone, e.p.Op == store.Update}
}

func nameOf(r *store.Rule) tallyName { return tallyName{string(r.Subject), r.Return, r.Method} }

func (e *evaluation) read(r *store.Rule) view {
	t := e.tallies[nameOf(r)]
	if e.p.Now < t.banned {
		left := t.banned - e.p.Now
		return view{limit: r.Count, reset: left, retry: left, banned: true}
	}
	return t.read(r, e.instant())
}

// change changes the rule's tally unless it is banned, and notes the change for Cancel.
func (e *evaluation) change(r *store.Rule, change func(t *tally)) {
	if c, changed := e.alter(r, change); changed {
		e.taken = append(e.taken, c)
	}
}

// alter changes the rule's tally unless it is banned.
func (e *evaluation) alter(r *store.Rule, change func(t *tally)) (c Taken, changed bool) {
	t := e.tallies[nameOf(r)]
	if r.Weight == 0 || e.p.Now < t.banned {
		return Taken{}, false
	}
	if t.number == 0 {
		e.made++
		t.number = e.made
	}
	before := t
	change(&t)
	e.tallies[nameOf(r)] = t
	return Taken{r, before, t, e.p.Now}, true
}

func (e *evaluation) add(r *store.Rule) {
	e.change(r, func(t *tally) {
		t.banned = 0
		t.add(r, e.instant())
	})
}

// giveBack refunds the weights of a set. A refund stands when its call is canceled.
func (e *evaluation) giveBack(s *store.Set) {
	for j := range s.Rules {
		if s.Rules[j].Outcome || s.Rules[j].Method == store.Hold {
			continue
		}
		e.alter(&s.Rules[j], func(t *tally) { t.refund(&s.Rules[j], e.instant()) })
	}
}

// ban opens a ban. After it nothing is counted.
func (e *evaluation) ban(r *store.Rule) {
	e.change(r, func(t *tally) { *t = tally{number: t.number, banned: e.p.Now + r.Ban*1000} })
}

// Taken is what a plan changed in one tally.
type Taken struct {
	rule          *store.Rule
	before, after tally
	now           int64
}

// Cancel gives back what a take counted. Nobody must gain by it: a window that has
// closed and a bucket that was full since give back nothing.
func (m *Model) Cancel(taken []Taken, now int64) {
	for i := range taken {
		c := &taken[len(taken)-1-i]
		t, known := m.tallies[nameOf(c.rule)]
		if !known || t.number != c.after.number || now < t.banned {
			continue
		}
		switch c.rule.Method {
		case store.Count, store.Base:
			t.hits, t.closes = cancelWindow(t.hits, t.opened, t.closes, c.before.hits, c.before.opened, c.before.closes, c.after.hits, c.after.opened, c.after.closes, now)
			t.second, t.until = cancelWindow(t.second, t.begun, t.until, c.before.second, c.before.begun, c.before.until, c.after.second, c.after.begun, c.after.until, now)
		case store.Leak:
			t.cancelLeak(c, now)
		case store.Token:
			t.cancelToken(taken[:len(taken)-i], now)
		case store.Hold:
			t.held = slices.DeleteFunc(slices.Clone(t.held), func(h *holding) bool { return h == c.after.held[len(c.after.held)-1] })
		}
		m.tallies[nameOf(c.rule)] = t
	}
}

// cancelWindow returns the hits and the end of a window without the hits that
// changed it from before to after.
func cancelWindow(list []hits, opened, closes int64, before []hits, openedBefore, closesBefore int64, after []hits, openedAfter, closesAfter, now int64) ([]hits, int64) {
	if opened != openedAfter || closes != closesAfter || now >= closes {
		return list, closes
	}
	n, opens := sum(after), true
	if openedBefore == openedAfter && closesBefore == closesAfter {
		n, opens = n-sum(before), false
	}
	if list = withoutNewest(list, n); opens && sum(list) == 0 {
		return nil, 0
	}
	return list, closes
}

// cancelLeak removes the hits of the take's own instant, as far as they are there.
func (t *tally) cancelLeak(c *Taken, now int64) {
	if len(c.after.hits) == 0 || t.banned > 0 {
		return // the take opened a ban, or another did later
	}
	last := c.after.hits[len(c.after.hits)-1]
	if !slices.ContainsFunc(t.young(c.rule, now), func(h hits) bool { return h.at == last.at }) {
		return
	}
	t.forget(c.rule, now)
	before := sum(t.hits)
	n := last.n
	t.hits = slices.Clone(t.hits)
	for i := len(t.hits) - 1; i >= 0; i-- {
		if t.hits[i].at == last.at {
			away := min(n, t.hits[i].n)
			t.hits[i].n -= away
			n -= away
		}
	}
	t.hits = slices.DeleteFunc(t.hits, func(h hits) bool { return h.n == 0 })
	if left := sum(t.hits); left < before || left == 0 {
		t.settle(c.rule)
	}
}
