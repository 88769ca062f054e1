package memory

import "github.com/koalagate/koalagate/internal/store"

// bucket is the counter of a token rule. It keeps what is missing rather than
// what is there, so that the zero bucket is full. All is in token·ms: a token
// is as many units as the rule's time has milliseconds, and a millisecond
// refills count units. So nothing is lost by rounding, and all stays within
// burst × time, which is at most 2^53.
type bucket struct {
	missing int64
	at      int64 // when missing held
	time    int64 // the rule's time then, in ms
	full    int64 // when nothing is missing any more
}

// short is what is missing at the moment. A clock before at adds nothing.
func (b *bucket) short(r *store.Rule, now int64) int64 {
	if now >= b.full {
		return 0 // by the rule that used it last, whatever this one says
	}
	missing := min(b.missing, r.Burst*r.Time*1000)
	if b.time != r.Time*1000 && missing > 0 {
		missing = b.converted(r)
	}
	elapsed := now - b.at
	if elapsed <= 0 {
		return missing
	}
	// Compared before it is multiplied: count × elapsed may be beyond 2^63.
	if elapsed >= ceilDiv(missing, r.Count) {
		return 0
	}
	return missing - r.Count*elapsed
}

// converted is what is missing in units of the rule's new time. Whole tokens
// stay what they were, a begun one counts as missing.
func (b *bucket) converted(r *store.Rule) int64 {
	tokens := ceilDiv(b.missing, b.time)
	return min(tokens, r.Burst) * r.Time * 1000
}

func (b *bucket) look(r *store.Rule, t moment) reading {
	unit := r.Time * 1000
	missing := b.short(r, t.now)
	level := r.Burst*unit - missing
	got := reading{
		admits:    r.Weight <= level/unit,
		limit:     r.Burst,
		remaining: level / unit,
		reset:     ceilDiv(missing, r.Count),
		retry:     Never,
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
	missing := b.short(r, t.now)
	if r.Weight > (r.Burst*unit-missing)/unit {
		missing = r.Burst * unit // it stops at empty
	} else {
		missing += r.Weight * unit
	}
	b.set(missing, r, t.now)
}

func (b *bucket) refund(r *store.Rule, t moment) {
	missing := b.short(r, t.now)
	if missing == 0 {
		return // and its instant stays: a bucket that was never used has none
	}
	if r.Weight >= r.Burst {
		missing = 0
	} else {
		missing = max(missing-r.Weight*r.Time*1000, 0)
	}
	b.set(missing, r, t.now)
}

func (b *bucket) set(missing int64, r *store.Rule, now int64) {
	at := max(now, b.at)
	*b = bucket{missing, at, r.Time * 1000, at + ceilDiv(missing, r.Count)}
}

func (b *bucket) until() int64 { return b.full }

func ceilDiv(a, b int64) int64 {
	if a%b != 0 {
		return a/b + 1
	}
	return a / b
}
