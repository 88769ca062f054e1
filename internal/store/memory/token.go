package memory

import "github.com/koalagate/koalagate/internal/store"

// bucket is the counter of a token rule. Amounts are in token·ms: a token is as many
// units as the rule's time has milliseconds, and each millisecond refills count
// units, so rounding loses nothing. A full bucket has burst × time units, which is at
// most 2^53, and no level is more than 2^53 units below full.
//
// The zero bucket is full, because the instant full has passed.
type bucket struct {
	level int64
	at    int64 // the instant at which level was computed
	time  int64 // the rule's time then, in ms
	full  int64 // the instant from which the bucket is full
}

// mostBelow is how far a level can be below full, in token·ms. What would exceed it
// is forgotten.
const mostBelow = store.MaxCounter + 1

// burstOf returns the number of tokens of a full bucket of the rule. A rule whose
// count is 0 admits nothing, so its bucket holds nothing.
func burstOf(r *store.Rule) int64 {
	if r.Count == 0 {
		return 0
	}
	return r.Burst
}

// refillOf returns the number of units that each millisecond refills. A count of 0
// refills a bucket that is below empty as a count of 1 does.
func refillOf(r *store.Rule) int64 { return max(r.Count, 1) }

// sizeOf returns the level of a full bucket of the rule.
func sizeOf(r *store.Rule) int64 { return burstOf(r) * r.Time * 1000 }

// levelAt returns the level at now. If the clock stepped back before at, nothing was
// refilled since. A level that the rule's burst does not hold is lost.
func (b *bucket) levelAt(r *store.Rule, now int64) int64 {
	size := sizeOf(r)
	if now >= b.full {
		return size // full is computed from the rule that used the bucket last, and holds for r too
	}
	level := b.level
	if b.time != r.Time*1000 {
		level = b.convert(r)
	}
	level = max(min(level, size), size-mostBelow)
	elapsed := now - b.at
	if elapsed <= 0 {
		return level
	}
	// Compare before multiplying: the product may exceed 2^63.
	if elapsed >= ceilDiv(size-level, refillOf(r)) {
		return size
	}
	return level + refillOf(r)*elapsed
}

// convert returns the level in units of the rule's new time. Whole tokens stay; a
// token that is partly refilled counts as missing.
func (b *bucket) convert(r *store.Rule) int64 {
	unit, burst := r.Time*1000, burstOf(r)
	tokens := min(floorDiv(b.level, b.time), burst)
	if tokens < burst-mostBelow/unit {
		return sizeOf(r) - mostBelow
	}
	return tokens * unit
}

func (b *bucket) read(r *store.Rule, t *moment, got *reading) {
	unit, burst := r.Time*1000, burstOf(r)
	level := b.levelAt(r, t.now)
	tokens, need := floorDiv(level, unit), needed(r)
	*got = reading{
		admits:    need <= tokens,
		limit:     burst,
		remaining: max(tokens, 0),
		reset:     ceilDiv(burst*unit-level, refillOf(r)),
		retry:     never,
		hits:      burst - tokens,
	}
	if !got.admits && need <= burst {
		got.retry = ceilDiv(need*unit-level, refillOf(r))
		if got.retry <= min(r.Wait, t.patience) {
			got.admits, got.wait = true, got.retry
		}
	}
}

// add takes the rule's weight from the bucket. Only a rule with overdraft, and takes that
// wait or that a marked rule lets pass, go below empty; others leave what is below as it is.
func (b *bucket) add(r *store.Rule, t *moment) {
	if r.Weight == 0 {
		return
	}
	level := b.levelAt(r, t.now)
	least := min(level, 0)
	if r.Overdraft || (r.Wait > 0 || r.Marked) && !t.update {
		least = sizeOf(r) - mostBelow
	}
	b.set(minus(level, r, least), r, t.now)
}

// minus returns the level without the rule's weight, but not less than least.
func minus(level int64, r *store.Rule, least int64) int64 {
	unit := r.Time * 1000
	if r.Weight > (level-least)/unit { // the product may exceed 2^63
		return least
	}
	return level - r.Weight*unit
}

func (b *bucket) refund(r *store.Rule, t *moment) {
	level, size, unit := b.levelAt(r, t.now), sizeOf(r), r.Time*1000
	switch {
	case level == size:
		return // without setting at: an unused bucket stays the zero bucket
	case r.Weight > (size-level)/unit:
		level = size
	default:
		level += r.Weight * unit
	}
	b.set(level, r, t.now)
}

// set stores the level at now.
func (b *bucket) set(level int64, r *store.Rule, now int64) {
	at := max(now, b.at)
	*b = bucket{level, at, r.Time * 1000, at + ceilDiv(sizeOf(r)-level, refillOf(r))}
}

func (b *bucket) banned(int64) bool { return false }

func (b *bucket) ban(int64) {}

func (b *bucket) giveBack(c *taken, t *moment) { b.refill(c, c.window.hits, t) }

// amend takes n more tokens, below empty if there are too few, or gives -n back.
func (b *bucket) amend(c *taken, n int64, t *moment) {
	r, unit := c.rule, c.rule.Time*1000
	switch {
	case n > 0:
		r.Weight = n
		b.set(minus(b.levelAt(&r, t.now), &r, sizeOf(&r)-mostBelow), &r, t.now)
	case n < 0:
		b.refill(c, min(-n, mostBelow/unit)*unit, t)
	}
}

// refill gives back n units of a take, less the units that would have overflowed since
// if nobody else had taken. It may refuse too much for a while, never too little.
func (b *bucket) refill(c *taken, n int64, t *moment) {
	r := &c.rule
	level, size := b.levelAt(r, t.now), sizeOf(r)
	if elapsed := t.now - c.at; elapsed > 0 {
		missing := size - (c.level - c.window.hits + n) // had the take left n there
		if elapsed >= ceilDiv(max(missing, 0)+n, refillOf(r)) {
			return // all would have overflowed
		}
		n -= max(refillOf(r)*elapsed-missing, 0)
	}
	if level < size && n > 0 {
		b.set(min(level+n, size), r, t.now)
	}
}

func (b *bucket) save(s *saved)    { s.bucket = *b }
func (b *bucket) restore(s *saved) { *b = s.bucket }
func (b *bucket) clone() counter   { return new(*b) }

func (b *bucket) taken(c *taken, before *saved, t *moment) {
	c.level, c.at = before.bucket.levelAt(&c.rule, t.now), b.at
	c.window.hits = c.level - b.levelAt(&c.rule, t.now)
}

func (b *bucket) untaken(c *taken, t *moment) {
	c.level, c.at = b.levelAt(&c.rule, t.now), max(t.now, b.at)
}

func (b *bucket) until() int64 { return b.full }

// ceilDiv returns a / b rounded up; a is not negative.
func ceilDiv(a, b int64) int64 {
	if a%b != 0 {
		return a/b + 1
	}
	return a / b
}

// floorDiv returns a / b rounded down.
func floorDiv(a, b int64) int64 {
	if a < 0 && a%b != 0 {
		return a/b - 1
	}
	return a / b
}
