package machine

import (
	"slices"

	"github.com/koalagate/koalagate/internal/store"
)

// view is the answer of a tally to a rule's weight.
type view struct {
	admits, daily, banned                      bool
	limit, remaining, reset, retry, hits, wait int64
}

func (v view) report(a *store.Answer, i int) {
	a.Reporter, a.Limit, a.Remaining, a.Reset, a.Daily, a.Banned = i, v.limit, v.remaining, v.reset, v.daily, v.banned
}

func sum(list []hits) (n int64) {
	for _, h := range list {
		n += h.n
	}
	return n
}

// with returns the list and n more hits, as far as numbers go.
func with(list []hits, at, n int64) []hits {
	return append(slices.Clone(list), hits{at, min(n, store.MaxCounter-sum(list))})
}

// withoutNewest returns the list without the newest n hits.
func withoutNewest(list []hits, n int64) []hits {
	list = slices.Clone(list)
	for len(list) > 0 && n > 0 {
		last := &list[len(list)-1]
		if last.n > n {
			last.n -= n
			return list
		}
		n -= last.n
		list = list[:len(list)-1]
	}
	return list
}

// needed returns the weight that must fit: on a rule with an overdraft or an estimate at
// least 1, on an outcome rule 1.
func needed(r *store.Rule) int64 {
	switch {
	case r.Outcome:
		return 1
	case r.Overdraft || r.Settle > 0:
		return max(r.Weight, 1)
	}
	return r.Weight
}

func (t *tally) read(r *store.Rule, at instant) view {
	switch r.Method {
	case store.Count:
		return t.readCount(r, at)
	case store.Base:
		return t.readBase(r, at)
	case store.Leak:
		return t.readLeak(r, at.now)
	case store.Hold:
		return t.readHold(r, at.now)
	}
	return t.readToken(r, at)
}

func (t *tally) add(r *store.Rule, at instant) {
	switch r.Method {
	case store.Count:
		if at.now >= t.closes {
			t.hits, t.opened, t.closes = nil, at.now, windowEnd(r, at.zone, at.now)
		}
		t.hits = with(t.hits, at.now, r.Weight)
	case store.Base:
		t.addBase(r, at)
	case store.Leak:
		t.forget(r, at.now)
		when := at.now
		if len(t.hits) > 0 {
			when = max(when, t.hits[len(t.hits)-1].at)
		}
		t.hits = with(t.hits, when, r.Weight)
		t.settle(r)
	case store.Token:
		t.addToken(r, at)
	case store.Hold:
		t.addHold(r, at.now)
	}
}

func (t *tally) refund(r *store.Rule, at instant) {
	switch r.Method {
	case store.Count, store.Base:
		if at.now < t.closes {
			t.hits = withoutNewest(t.hits, r.Weight)
		}
		if at.now < t.until {
			t.second = withoutNewest(t.second, r.Weight)
		}
	case store.Leak:
		if t.banned > 0 {
			return
		}
		t.forget(r, at.now)
		t.hits = withoutNewest(t.hits, r.Weight)
		t.settle(r)
	case store.Token:
		t.refundToken(r, at)
	}
}

func (t *tally) readCount(r *store.Rule, at instant) view {
	counted, closes := sum(t.hits), t.closes
	if at.now >= t.closes {
		counted, closes = 0, windowEnd(r, at.zone, at.now)
	}
	v := view{admits: counted+needed(r) <= r.Count, limit: r.Count, remaining: max(0, r.Count-counted), hits: counted}
	v.reset, v.retry = closes-at.now, closes-at.now
	if needed(r) > r.Count {
		v.retry = -1
	}
	return v
}

// today returns the hits in the first window of a base rule.
func (t *tally) today(now int64) int64 {
	if now < t.closes {
		return sum(t.hits)
	}
	return 0
}

// inSecond returns the hits in the second window of a base rule.
func (t *tally) inSecond(now int64) int64 {
	if now < t.until {
		return sum(t.second)
	}
	return 0
}

func (t *tally) readBase(r *store.Rule, at instant) view {
	now := at.now
	today, second := t.today(now), t.inSecond(now)
	v := view{admits: true, limit: r.Count, remaining: max(0, r.Count-second), reset: r.Time * 1000, hits: today}
	if now < t.until {
		v.reset = t.until - now
	}
	if today < r.Base {
		v.daily, v.limit, v.remaining, v.reset = true, r.Base, r.Base-today, t.closes-now
		if now >= t.closes {
			v.reset = unitEnd(at.zone, store.Date, 0, now) - now
		}
	}
	// Hit by hit; all hits beyond base and count are refused alike.
	count := int64(0)
	for range min(r.Weight, r.Base+r.Count+1) {
		if today >= r.Base && second >= r.Count {
			v.admits = false
		}
		if today++; today >= r.Base {
			second++
			count++
		}
	}
	v.retry = t.until - now
	if count > r.Count {
		v.retry = -1
	}
	return v
}

func (t *tally) addBase(r *store.Rule, at instant) {
	now := at.now
	today := t.today(now)
	if now >= t.closes {
		t.hits, t.opened, t.closes = nil, now, unitEnd(at.zone, store.Date, 0, now)
	}
	t.hits = with(t.hits, now, r.Weight)
	// The new hits among those of today from number base on.
	n := min(r.Weight, max(0, today+r.Weight-r.Base+1))
	if n == 0 {
		return
	}
	if now >= t.until {
		t.second, t.begun, t.until = nil, now, now+r.Time*1000
	}
	t.second = with(t.second, now, n)
}

// forget drops the hits of a leak rule that are as old as its time: hits that a
// change dropped do not return.
func (t *tally) forget(r *store.Rule, now int64) { t.hits = t.young(r, now) }

// settle sets when the newest hit of a leak rule leaves.
func (t *tally) settle(r *store.Rule) {
	t.closes = 0
	if n := len(t.hits); n > 0 {
		t.closes = t.hits[n-1].at + r.Time*1000
	}
}

// young returns the hits of a leak rule that are younger than its time. After
// the newest has left for the rule that counted it, all have left for good.
func (t *tally) young(r *store.Rule, now int64) []hits {
	if now >= t.closes {
		return nil
	}
	var list []hits
	for _, h := range t.hits {
		if now-h.at < r.Time*1000 {
			list = append(list, h)
		}
	}
	return list
}

func (t *tally) readLeak(r *store.Rule, now int64) view {
	young := t.young(r, now)
	counted, need := sum(young), needed(r)
	v := view{admits: counted+need <= r.Count, limit: r.Count, remaining: max(0, r.Count-counted), hits: counted, retry: -1}
	if counted > 0 { // at the most hits that numbers hold, further ones leave only their instant
		v.reset = young[len(young)-1].at + r.Time*1000 - now
	}
	// It fits when enough of the oldest have left.
	for i := 0; !v.admits && need <= r.Count && counted+need > r.Count; i++ {
		counted -= young[i].n
		v.retry = young[i].at + r.Time*1000 - now
	}
	return v
}
