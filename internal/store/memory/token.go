package memory

import "github.com/koalagate/koalagate/internal/store"

// bucket is the counter of a token rule. It stores the missing amount instead of
// the level, so that the zero bucket is full. Amounts are in token·ms: a token is
// as many units as the rule's time has milliseconds, and each millisecond refills
// count units. So rounding loses nothing, and no amount exceeds burst × time,
// which is at most 2^53.
type bucket struct {
	missing int64
	at      int64 // the instant at which missing was computed
	time    int64 // the rule's time then, in ms
	full    int64 // the instant from which the bucket is full
}

// missingAt returns the amount that is missing at now. If the clock stepped back
// before at, nothing was refilled since.
func (b *bucket) missingAt(r *store.Rule, now int64) int64 {
	if now >= b.full {
		return 0 // full is computed from the rule that used the bucket last, and holds for r too
	}
	missing := min(b.missing, r.Burst*r.Time*1000)
	if b.time != r.Time*1000 && missing > 0 {
		missing = b.convert(r)
	}
	elapsed := now - b.at
	if elapsed <= 0 {
		return missing
	}
	// Compare before multiplying: count × elapsed may exceed 2^63.
	if elapsed >= ceilDiv(missing, r.Count) {
		return 0
	}
	return missing - r.Count*elapsed
}

// convert returns the missing amount in units of the rule's new time. Whole
// tokens stay; a token that is partly refilled counts as missing.
func (b *bucket) convert(r *store.Rule) int64 {
	tokens := ceilDiv(b.missing, b.time)
	return min(tokens, r.Burst) * r.Time * 1000
}

func (b *bucket) read(r *store.Rule, t moment) reading {
	unit := r.Time * 1000
	missing := b.missingAt(r, t.now)
	level := r.Burst*unit - missing
	got := reading{
		admits:    r.Weight <= level/unit,
		limit:     r.Burst,
		remaining: level / unit,
		reset:     ceilDiv(missing, r.Count),
		retry:     never,
		hits:      r.Burst - level/unit,
	}
	if !got.admits && r.Weight <= r.Burst {
		got.retry = ceilDiv(r.Weight*unit-level, r.Count)
	}
	return got
}

func (b *bucket) add(r *store.Rule, t moment) {
	if r.Weight == 0 {
		return
	}
	unit := r.Time * 1000
	missing := b.missingAt(r, t.now)
	if r.Weight > (r.Burst*unit-missing)/unit {
		missing = r.Burst * unit // an empty bucket gets no emptier
	} else {
		missing += r.Weight * unit
	}
	b.set(missing, r, t.now)
}

func (b *bucket) refund(r *store.Rule, t moment) {
	missing := b.missingAt(r, t.now)
	if missing == 0 {
		return // without setting at: an unused bucket stays the zero bucket
	}
	if r.Weight >= r.Burst {
		missing = 0
	} else {
		missing = max(missing-r.Weight*r.Time*1000, 0)
	}
	b.set(missing, r, t.now)
}

// set stores the missing amount at now.
func (b *bucket) set(missing int64, r *store.Rule, now int64) {
	at := max(now, b.at)
	*b = bucket{missing, at, r.Time * 1000, at + ceilDiv(missing, r.Count)}
}

func (b *bucket) until() int64 { return b.full }

// ceilDiv returns a / b rounded up.
func ceilDiv(a, b int64) int64 {
	if a%b != 0 {
		return a/b + 1
	}
	return a / b
}
