package memory

import (
	"github.com/koalagate/koalagate/internal/method"
	"github.com/koalagate/koalagate/internal/store"
)

// lender is a counter of which shares are assigned. It replaces the plain counter at the
// first assignment, so that others cost nothing.
type lender interface {
	counter
	// lent returns the shares of a bucket or an open window.
	lent(now int64) shares
	// pool returns what the counter can lend.
	pool(r *store.Rule, t *moment) pool
	// lend gives units back to the counter, or takes them if the number is negative, and
	// sets the shares and the tide.
	lend(r *store.Rule, t *moment, units int64, list shares, risen tide)
	// reset forgets all hits but what is reserved.
	reset(r *store.Rule, t *moment)
}

// shareOf returns the hits that holders may have in advance.
func shareOf(r *store.Rule, limit int64) int64 {
	return limit/1000*r.Lease + limit%1000*r.Lease/1000
}

// lentBucket is a bucket of which shares are assigned. What they reserve until their ends
// is missing in its level, though most of it is refill to come: takes see a level to which
// that refill is added.
type lentBucket struct {
	bucket
	list shares
	tide tide
}

// toLevel returns units of shares in units of a level, rounded up.
func toLevel(units int64, r *store.Rule) int64 {
	unit := r.Time * 1000
	whole := floorDiv(units, unitsPerHit)
	if whole >= mostBelow/unit {
		return mostBelow
	}
	return whole*unit + ceilDiv((units-whole*unitsPerHit)*unit, unitsPerHit)
}

// toUnits returns a level in units of shares, rounded down.
func toUnits(level int64, r *store.Rule) int64 {
	const most = 1 << 39 // hits, more than any share has
	unit := r.Time * 1000
	whole := floorDiv(level, unit)
	rest := (level - whole*unit) * unitsPerHit / unit
	return max(min(whole, most), -most)*unitsPerHit + rest
}

// refillRate returns the refill of the rule's bucket in units per ms.
func refillRate(r *store.Rule) int64 {
	return min(min(r.Count, 1<<39)*unitsPerHit/(r.Time*1000), maxRate)
}

// clip sets the level to the one at now. While shares last, a full bucket lacks what they
// keep.
func (b *lentBucket) clip(r *store.Rule, now int64) {
	last := b.list.lasting(now)
	for i := range len(b.list) - len(last) {
		if end := b.list[i].end; b.at < end {
			b.bound(r, end, b.list[i:].kept(end))
		}
	}
	b.bound(r, now, last.kept(now))
}

// bound sets the level to the one at now, of a bucket that is filled to its size less units
// at most.
func (b *lentBucket) bound(r *store.Rule, now, units int64) {
	level := b.levelAt(r, now)
	if units > 0 {
		level = min(level, sizeOf(r)-toLevel(units, r))
	}
	if now >= b.at {
		b.set(level, r, now)
	}
}

// shift adds units to the level.
func (b *lentBucket) shift(r *store.Rule, now, level int64) { b.set(b.levelAt(r, now)+level, r, now) }

// coming returns the refill that shares reserve and takes see, as a level. If the clock has
// stepped back, the level has the refill up to its instant already.
func (b *lentBucket) coming(r *store.Rule, now int64) int64 {
	now = max(now, b.at)
	all := b.list.sum(now, store.HolderID{})
	return toLevel(all.ahead-min(all.ahead, all.committed(refillRate(r), now)), r)
}

func (b *lentBucket) read(r *store.Rule, t *moment, got *reading) {
	seen := *b // as in Redis, a look leaves the instant of the level, from which a clock may step back
	seen.clip(r, t.now)
	level := seen.levelAt(r, t.now) + seen.coming(r, t.now)
	seen.set(min(level, sizeOf(r)), r, t.now)
	seen.bucket.read(r, t, got)
}

func (b *lentBucket) add(r *store.Rule, t *moment) {
	b.clip(r, t.now)
	coming := b.coming(r, t.now)
	b.shift(r, t.now, coming)
	b.bucket.add(r, t)
	b.shift(r, t.now, -coming)
}

func (b *lentBucket) refund(r *store.Rule, t *moment) {
	b.clip(r, t.now)
	b.bucket.refund(r, t)
	b.clip(r, t.now)
}

func (b *lentBucket) giveBack(c *taken, t *moment) {
	b.clip(&c.rule, t.now)
	b.bucket.giveBack(c, t)
	b.clip(&c.rule, t.now)
}

func (b *lentBucket) clone() counter    { return new(*b) }
func (b *lentBucket) until() int64      { return max(b.bucket.until(), b.list.end()) }
func (b *lentBucket) lent(int64) shares { return b.list }

func (b *lentBucket) pool(r *store.Rule, t *moment) pool {
	b.clip(r, t.now)
	all, risen, stock := b.list.sum(t.now, store.HolderID{}), b.tide, b.stock(r, t.now)
	risen.rise(stock, refillRate(r)-all.rate, t.now)
	whole := toUnits(sizeOf(r), r)
	return pool{
		bucket: true, unit: 1, refill: refillRate(r), fastest: refillRate(r) + whole/shortest, bursts: shareOf(r, r.Burst) / method.BucketBursts,
		stock: stock, tide: risen, size: whole - all.burst*unitsPerHit, latest: max(t.now, b.at),
	}
}

// stock returns the units in the bucket beside what is reserved.
func (b *lentBucket) stock(r *store.Rule, now int64) int64 {
	return toUnits(b.levelAt(r, now), r) + b.list.sum(max(now, b.at), store.HolderID{}).ahead
}

func (b *lentBucket) lend(r *store.Rule, t *moment, units int64, list shares, risen tide) {
	before := b.levelAt(r, t.now)
	b.shift(r, t.now, -toLevel(-units, r))
	b.list, b.tide = list, risen
	b.clip(r, t.now)
	if t.now < b.at { // the clock has stepped back: nothing is lost, but what comes back has to fit
		most := max(before, sizeOf(r)-toLevel(list.lasting(t.now).kept(t.now), r))
		b.set(min(b.levelAt(r, t.now), most), r, t.now)
	}
	if b.tide.stock, b.tide.at = b.stock(r, t.now), t.now; len(list) == 0 {
		b.tide = tide{}
	}
}

func (b *lentBucket) reset(r *store.Rule, t *moment) {
	b.bucket = bucket{}
	b.clip(r, t.now)
}

// lentWindow is a window of which shares are assigned. What they reserve is counted.
type lentWindow struct {
	window
	list   shares
	closes int64 // the end of the window that they are of
}

func (w *lentWindow) lent(now int64) shares {
	if w.isOpen(now) && w.end == w.closes && w.hits >= 0 {
		return w.list
	}
	return nil
}

// keep keeps what is reserved counted after a change from before.
func (w *lentWindow) keep(before, now int64) {
	if all := w.lent(now).sum(now, store.HolderID{}); w.hits >= 0 && w.isOpen(now) {
		w.hits = max(w.hits, min(all.left/unitsPerHit, before))
	}
}

func (w *lentWindow) refund(r *store.Rule, t *moment) {
	before := w.hits
	w.window.refund(r, t)
	w.keep(before, t.now)
}

func (w *lentWindow) giveBack(c *taken, t *moment) {
	before := *w
	w.window.giveBack(c, t)
	if w.end == 0 && before.end > 0 { // which would forget the shares
		w.window = window{opened: before.opened, end: before.end}
	}
	w.keep(before.hits, t.now)
}

// early reports whether the rule refuses only because of what is reserved: that opens no ban.
func (w *lentWindow) early(r *store.Rule, now int64) bool {
	reserved := w.lent(now).sum(now, store.HolderID{}).left / unitsPerHit
	return needed(r) <= r.Count-w.hitsAt(now)+reserved
}

func (w *lentWindow) clone() counter { return new(*w) }

func (w *lentWindow) pool(r *store.Rule, t *moment) pool {
	const enough = 1 << 39 // hits, more than any share has
	most, closes := min(shareOf(r, r.Count), enough), w.end
	if !w.isOpen(t.now) {
		closes = windowEnd(r, t)
	}
	return pool{
		unit: unitsPerHit, most: most * unitsPerHit, fastest: most * unitsPerHit / shortest, bursts: most / method.WindowBursts, closes: closes, latest: t.now,
		stock: min(max(r.Count-w.hitsAt(t.now), 0), enough) * unitsPerHit,
	}
}

func (w *lentWindow) lend(r *store.Rule, t *moment, units int64, list shares, _ tide) {
	hits := -units / unitsPerHit // a whole number
	switch {
	case w.isOpen(t.now):
		w.hits = max(min(w.hits, store.MaxCounter-hits)+hits, 0)
	case hits > 0:
		w.open(t.now, windowEnd(r, t))
		w.count(hits)
	}
	w.list, w.closes = list, w.end
}

func (w *lentWindow) reset(r *store.Rule, t *moment) {
	list := w.lent(t.now)
	w.window = window{}
	if all := list.sum(t.now, store.HolderID{}); all.left > 0 {
		w.open(t.now, windowEnd(r, t))
		w.hits, w.list, w.closes = all.left/unitsPerHit, list, w.end
	}
}
