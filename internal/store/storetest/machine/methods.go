package machine

import (
	"math/big"
	"slices"

	"github.com/koalagate/koalagate/internal/store"
)

// view is the answer of a tally to a rule's weight.
type view struct {
	admits, daily                        bool
	limit, remaining, reset, retry, hits int64
}

func (v view) report(a *store.Answer, i int) {
	a.Reporter, a.Limit, a.Remaining, a.Reset, a.Daily = i, v.limit, v.remaining, v.reset, v.daily
}

func sum(list []hits) (n int64) {
	for _, h := range list {
		n += h.n
	}
	return n
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

func (t *tally) read(r *store.Rule, now, dayEnd int64) view {
	switch r.Method {
	case store.Count:
		return t.readCount(r, now, dayEnd)
	case store.Base:
		return t.readBase(r, now, dayEnd)
	case store.Leak:
		return t.readLeak(r, now)
	}
	return t.readToken(r, now)
}

func (t *tally) add(r *store.Rule, now, dayEnd int64) {
	switch r.Method {
	case store.Count:
		end := now + r.Time*1000
		if r.Time == store.Day {
			end = dayEnd
		}
		if now >= t.closes {
			t.hits, t.closes = nil, end
		}
		t.hits = append(t.hits, hits{now, r.Weight})
	case store.Base:
		t.addBase(r, now, dayEnd)
	case store.Leak:
		t.forget(r, now)
		at := now
		if len(t.hits) > 0 {
			at = max(at, t.hits[len(t.hits)-1].at)
		}
		t.hits = append(t.hits, hits{at, r.Weight})
		t.closes = at + r.Time*1000
	case store.Token:
		missing, burst := t.missing(r, now), big.NewRat(r.Burst, 1)
		if missing.Add(missing, big.NewRat(r.Weight, 1)); missing.Cmp(burst) > 0 {
			missing = burst // an update stops at empty
		}
		t.fill(r, now, missing)
	}
}

func (t *tally) refund(r *store.Rule, now int64) {
	switch r.Method {
	case store.Count, store.Base:
		if now < t.closes {
			t.hits = withoutNewest(t.hits, r.Weight)
		}
		if now < t.until {
			t.second = withoutNewest(t.second, r.Weight)
		}
	case store.Leak:
		t.forget(r, now)
		t.hits, t.closes = withoutNewest(t.hits, r.Weight), 0
		if n := len(t.hits); n > 0 {
			t.closes = t.hits[n-1].at + r.Time*1000
		}
	case store.Token:
		missing := t.missing(r, now)
		if missing.Sign() == 0 {
			return
		}
		if missing.Sub(missing, big.NewRat(r.Weight, 1)); missing.Sign() < 0 {
			missing = new(big.Rat)
		}
		t.fill(r, now, missing)
	}
}

func (t *tally) readCount(r *store.Rule, now, dayEnd int64) view {
	counted, closes := int64(0), now+r.Time*1000
	if r.Time == store.Day {
		closes = dayEnd
	}
	if now < t.closes {
		counted, closes = sum(t.hits), t.closes
	}
	v := view{admits: counted+r.Weight <= r.Count, limit: r.Count, remaining: max(0, r.Count-counted), hits: counted}
	v.reset, v.retry = closes-now, closes-now
	if r.Weight > r.Count {
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

func (t *tally) readBase(r *store.Rule, now, dayEnd int64) view {
	today, second := t.today(now), t.inSecond(now)
	v := view{admits: true, limit: r.Count, remaining: max(0, r.Count-second), reset: r.Time * 1000, hits: today}
	if now < t.until {
		v.reset = t.until - now
	}
	if today < r.Base {
		v.daily, v.limit, v.remaining, v.reset = true, r.Base, r.Base-today, dayEnd-now
		if now < t.closes {
			v.reset = t.closes - now
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

func (t *tally) addBase(r *store.Rule, now, dayEnd int64) {
	today := t.today(now)
	if now >= t.closes {
		t.hits, t.closes = nil, dayEnd
	}
	t.hits = append(t.hits, hits{now, r.Weight})
	// The new hits among those of today from number base on.
	n := min(r.Weight, max(0, today+r.Weight-r.Base+1))
	if n == 0 {
		return
	}
	if now >= t.until {
		t.second, t.until = nil, now+r.Time*1000
	}
	t.second = append(t.second, hits{now, n})
}

// forget drops the hits of a leak rule that are as old as its time: hits that a
// change dropped do not return.
func (t *tally) forget(r *store.Rule, now int64) { t.hits = t.young(r, now) }

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
	counted := sum(young)
	v := view{admits: counted+r.Weight <= r.Count, limit: r.Count, remaining: max(0, r.Count-counted), hits: counted, retry: -1}
	if len(young) > 0 {
		v.reset = young[len(young)-1].at + r.Time*1000 - now
	}
	// It fits when enough of the oldest have left.
	for i := 0; !v.admits && r.Weight <= r.Count && counted+r.Weight > r.Count; i++ {
		counted -= young[i].n
		v.retry = young[i].at + r.Time*1000 - now
	}
	return v
}

// missing returns the number of missing tokens. A bucket that is full for the
// rule that used it last is full. Otherwise, if the rule's time has changed,
// whole tokens remain, and a partial one is missing.
func (t *tally) missing(r *store.Rule, now int64) *big.Rat {
	if t.bucket.missing == nil || now >= t.bucket.full {
		return new(big.Rat)
	}
	missing := new(big.Rat).Set(t.bucket.missing)
	if t.bucket.time != r.Time {
		missing.SetInt64(ceil(missing))
	}
	if burst := big.NewRat(r.Burst, 1); missing.Cmp(burst) > 0 {
		missing = burst
	}
	if now > t.bucket.at {
		missing.Sub(missing, big.NewRat(r.Count*(now-t.bucket.at), r.Time*1000))
	}
	if missing.Sign() < 0 {
		return new(big.Rat)
	}
	return missing
}

func (t *tally) fill(r *store.Rule, now int64, missing *big.Rat) {
	at := max(now, t.bucket.at)
	t.bucket = level{missing, at, r.Time, at + refill(r, missing)}
}

// refill returns how long it takes to refill so many tokens, in ms.
func refill(r *store.Rule, tokens *big.Rat) int64 {
	return ceil(new(big.Rat).Mul(tokens, big.NewRat(r.Time*1000, r.Count)))
}

func ceil(x *big.Rat) int64 {
	n := new(big.Int).Add(x.Num(), new(big.Int).Sub(x.Denom(), big.NewInt(1)))
	return n.Div(n, x.Denom()).Int64()
}

func (t *tally) readToken(r *store.Rule, now int64) view {
	missing := t.missing(r, now)
	tokens := r.Burst - ceil(missing)
	v := view{admits: r.Weight <= tokens, limit: r.Burst, remaining: tokens, reset: refill(r, missing), retry: -1, hits: r.Burst - tokens}
	if !v.admits && r.Weight <= r.Burst {
		short := new(big.Rat).Sub(big.NewRat(r.Weight-r.Burst, 1), new(big.Rat).Neg(missing))
		v.retry = refill(r, short)
	}
	return v
}
