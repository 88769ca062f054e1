package memory

import (
	"cmp"
	"slices"

	"github.com/koalagate/koalagate/internal/store"
)

// unitsPerHit is the number of units of a hit in amounts of shares: a rate of one hit per
// 10 s is one unit per ms.
const unitsPerHit = 10_000

// maxRate and maxBurst bound a share: Envoy's numbers have 32 bits.
const (
	maxRate  = 1 << 31
	maxBurst = 1 << 31
)

// shortest is how long the shortest share is reserved, in ms.
const shortest = 1000 + store.OnTheWay

// keepEnded is how long a share is kept beyond its end, in ms: counts of it may come late.
const keepEnded = 30_000

// share is what one holder has of the limit of a counter. What it may admit until its end
// is reserved: counted in a window, missing in a bucket. redis/lua/shares.lua and assign.lua have
// the same arithmetic.
//
//	rate + more │░░░░░
//	       rate │░░░░░░░░░░░░░░░░░░░░   ahead: the units that fill the holder's bucket until the end
//	            └────┬──────────────┬
//	           now  cut            end
//
//	left = ahead + rest               rest: what the bucket may hold now, burst at most
//
// A report takes the admitted hits from left. If rest falls below 0, the holder has admitted
// more than it had: the counter owes. If it rises above the bucket's burst, the bucket is full,
// and what flows over goes back to the counter, unless a report was lost: then it counts as
// spent.
type share struct {
	id    store.HolderID
	end   int64 // ms since the epoch; nothing is reserved from then on
	rate  int64 // units per ms
	more  int64 // what it was more before a message that lowered it, which may be under way until cut
	cut   int64
	burst int64 // hits of the holder's bucket; 0: the holder waits for an assignment
	left  int64 // units that the holder may admit until the end; for one that waits, what is reserved
	want  int64 // the rate that it wants
	seen  int64 // when it last reported
}

// lasts reports whether the share has not ended.
func (s *share) lasts(now int64) bool { return now < s.end }

// assigned reports whether the holder may admit hits by the share. One whose share lasts but
// is not assigned waits for its first burst.
func (s *share) assigned(now int64) bool { return s.lasts(now) && s.burst > 0 }

// rateAt returns the rate at which the holder's bucket may be filled now.
func (s *share) rateAt(now int64) int64 {
	switch {
	case !s.lasts(now):
		return 0
	case now < s.cut:
		return s.rate + s.more
	}
	return s.rate
}

// ahead returns the units of the rate until the end, in whole multiples of unit.
func (s *share) ahead(now, unit int64) int64 {
	units := s.rate*max(s.end-now, 0) + s.more*max(s.cut-now, 0)
	return units - units%unit
}

// rest returns the units that the holder's bucket may have now. A clock that has stepped back
// makes the time until the end longer, but not what is reserved for it.
func (s *share) rest(now, unit int64) int64 { return max(s.left-s.ahead(now, unit), 0) }

// reserved returns the units that are reserved now.
func (s *share) reserved(now int64) int64 {
	if s.lasts(now) {
		return s.left
	}
	return 0
}

// mayRefill reports whether the assignment may end before a message of now arrives, which
// then finds no bucket, and fills it afresh.
func (s *share) mayRefill(now int64) bool { return s.end-now < 2*store.OnTheWay }

// counts reports whether the holder takes part in the sharing.
func (s *share) counts(now int64) bool { return s.lasts(now) || now-s.seen <= store.ReportWithin }

// shares are the shares of one counter, in the order of their ends. A list never changes.
type shares []share

// sums are sums over the shares that have not ended.
type sums struct{ rate, burst, left, ahead, end int64 }

// sum returns the sums over all shares but the one of id.
func (l shares) sum(now int64, except store.HolderID) (s sums) {
	for i := range l {
		if one := &l[i]; one.lasts(now) && one.id != except {
			s.rate, s.burst, s.left, s.ahead = s.rate+one.rateAt(now), s.burst+one.burst, s.left+one.left, s.ahead+one.ahead(now, 1)
			s.end = max(s.end, one.end)
		}
	}
	return s
}

// wants returns the rates that all holders want but the one of id.
func (l shares) wants(now int64, except store.HolderID) (list []int64) {
	for i := range l {
		if l[i].id != except && l[i].counts(now) {
			list = append(list, l[i].want)
		}
	}
	return list
}

// lasting returns the shares that have not ended.
func (l shares) lasting(now int64) shares {
	for len(l) > 0 && !l[0].lasts(now) {
		l = l[1:]
	}
	return l
}

// kept returns the units that a full bucket lacks at an instant while all of the shares
// last: a holder's bucket, and the rate until the end.
func (l shares) kept(at int64) (units int64) {
	for i := range l {
		if one := &l[i]; one.burst > 0 {
			units += one.burst*unitsPerHit + one.ahead(at, 1)
		} else {
			units += one.left
		}
	}
	return units
}

// end returns the end of the last share, 0 without any.
func (l shares) end() int64 {
	if len(l) == 0 {
		return 0
	}
	return l[len(l)-1].end
}

// committed returns an upper bound of the units by which the shares reserve more than
// refill until they end: neither takes nor bursts may have these.
func (s *sums) committed(refill, now int64) int64 {
	return max(s.rate-refill, 0) * max(s.end-now, 0)
}

// isKept reports whether the share has not ended long ago.
func (s *share) isKept(now int64) bool { return now-max(s.end, s.seen) <= keepEnded }

// find returns a copy of the share of a holder; if there is none, a zero share but for its
// id.
func (l shares) find(now int64, id store.HolderID) (s share, known bool) {
	for i := range l {
		if l[i].id == id && l[i].isKept(now) {
			return l[i], true
		}
	}
	return share{id: id}, false
}

// namesake returns the index of the share under the name that another stream reported, -1 if
// there is none. Of several it is the one that was not reported for the longest time, if
// possible one that lasts.
func (l shares) namesake(now int64, id store.HolderID) int {
	found := -1
	for i := range l {
		if one := &l[i]; one.id.Name == id.Name && one.id != id && one.isKept(now) {
			if found < 0 || one.lasts(now) && !l[found].lasts(now) || one.lasts(now) == l[found].lasts(now) && one.seen < l[found].seen {
				found = i
			}
		}
	}
	return found
}

// returned returns the shares after a holder came back by another stream.
func (l shares) returned(now int64, id store.HolderID) shares {
	at := l.namesake(now, id)
	if _, known := l.find(now, id); known || at < 0 {
		return l
	}
	next := slices.Clone(l)
	next[at].id = id
	return next
}

// with returns the shares with one in place of its former state, without those that ended
// long ago, and without it if it is a zero share. Of MaxHolders, the one that ended first and does
// not count any more makes room.
func (l shares) with(one *share, now int64) shares {
	next := make(shares, 0, len(l)+1)
	for i := range l {
		if l[i].id != one.id && l[i].isKept(now) {
			next = append(next, l[i])
		}
	}
	if *one != (share{id: one.id}) {
		at, _ := slices.BinarySearchFunc(next, one.end, func(s share, end int64) int { return cmp.Compare(s.end, end) })
		next = slices.Insert(next, at, *one)
	}
	if len(next) > store.MaxHolders { // store.TooMany has seen to it that one does not count
		if at := slices.IndexFunc(next, func(s share) bool { return !s.counts(now) }); at >= 0 {
			next = slices.Delete(next, at, at+1)
		}
	}
	return next
}

// record takes from a share what its holder has admitted. It returns the units that the
// counter gets back, negative if it owes some.
func (s *share) record(u *store.Usage, p *pool, now int64) (back int64) {
	s.left -= u.Allowed * unitsPerHit
	rest := s.left - s.ahead(now, p.unit)
	most := s.burst*unitsPerHit + s.rateAt(now)*store.OnTheWay
	most -= most % p.unit
	switch {
	case rest < 0:
		if back = rest; p.bucket { // a false report must not empty it for years
			back = max(rest, min(-p.stock-p.size, 0))
		}
		s.left -= rest
	case s.assigned(now) && rest > most: // its bucket holds no more: the rest cannot be admitted any more
		switch back = rest - most; {
		case now-s.seen > store.ReportWithin: // a report was lost: what it had admitted is a part of the rest
			back = 0
		case p.bucket:
			back = max(min(back, p.room()), 0)
		}
		s.left -= rest - most
	}
	p.stock += back
	return back
}

// wish sets the rate that the holder wants: a fifth more than what it was asked for, and
// something to grow by; at first as much as another holder of its name, whose place it may
// take, or a quarter. total is the rate of the limit.
func (s *share) wish(u *store.Usage, total, alike int64) {
	switch {
	case u.Reported && u.Elapsed >= 500:
		asked := (u.Allowed + u.Denied) * unitsPerHit / u.Elapsed
		s.want = min(max(asked*6/5+total/50, 1), maxRate)
	case s.want == 0:
		s.want = max(cmp.Or(alike, total/4), 1)
	}
}

// fairRate returns the max-min fair part of total for a holder that wants own, beside the
// others.
func fairRate(total, own int64, others []int64) int64 {
	n, served := int64(len(others)+1), int64(-1)
	level := total / n
	for {
		sum, count := int64(0), int64(0)
		if own <= level {
			sum, count = own, 1
		}
		for _, want := range others {
			if want <= level {
				sum, count = sum+want, count+1
			}
		}
		if count == n || count == served {
			return min(own, level)
		}
		served, level = count, (total-sum)/(n-count)
	}
}

// pool is what a counter can lend at one instant.
type pool struct {
	bucket  bool
	unit    int64 // amounts that the counter gets and gives are multiples of it
	refill  int64 // the rate of a bucket
	stock   int64 // units: the level of a bucket beside what is reserved, what is left of a window
	most    int64 // units of a window that may be reserved
	bursts  int64 // hits that the bursts of all shares may have together
	fastest int64 // a rate that no share exceeds: all that is lent, in the shortest one
	closes  int64 // when the window closes, 0 for a bucket
	latest  int64 // now, or the later instant of a bucket's level if the clock has stepped back: until then holders may have admitted hits
	lasting int64 // ms that a share is reserved
	size    int64 // units of a full bucket less the bursts
	tide    tide  // of a bucket
	others  sums  // of the other shares
	wants   []int64
}

// tide is how high a bucket was lately. What a holder's bucket could not hold goes back, but
// only as far as the limit's bucket could have held it all the time since the last report:
// else the refill of seconds would come back in a moment, on top of a full bucket.
type tide struct {
	stock, at    int64 // units after the last step, and when it was
	high, before int64 // the most units since turned, and in the time before
	turned       int64
}

// rise takes note of a step at now, when the bucket has stock, and has been filled at a rate
// since the last step.
func (t *tide) rise(stock, rate, now int64) {
	peak := max(stock, t.stock+max(rate, 0)*max(now-t.at, 0))
	switch since := now - t.turned; {
	case since > 2*store.ReportWithin: // no holder reported lately
		t.before, t.high, t.turned = stock, stock, now
	case since > store.ReportWithin:
		t.before, t.high, t.turned = t.high, peak, now
	default: // also if the clock has stepped back
		t.high, t.turned = max(t.high, peak), min(t.turned, now)
	}
}

// room returns the units that the bucket could have held besides, all the time since a holder
// whose reports come in time has reported.
func (p *pool) room() int64 { return p.size - max(p.tide.high, p.tide.before) }

// total returns the rate that holders may have together, before what is left is known.
func (p *pool) total() int64 {
	if p.bucket {
		return p.refill
	}
	return max(p.most-p.bursts*unitsPerHit, 0) / p.lasting
}

// longest returns how long an assignment can last, in ms, of the time that the caller wants.
func (p *pool) longest(lasts, now int64) int64 {
	if p.bucket {
		return lasts
	}
	return min(lasts, (p.closes-now-store.OnTheWay)/1000*1000)
}

// offer is what a counter can give to a holder.
type offer struct{ rate, burst int64 }

// offer returns what the holder of s can get. keeps reports that it keeps its bucket, and
// grows that the bucket may become larger: its first burst may have been what was free then.
func (p *pool) offer(s *share, now int64, keeps, grows bool) offer {
	sharing := int64(4) // as long as they are few, a further one makes no burst smaller
	for sharing <= int64(len(p.wants)) {
		sharing *= 2
	}
	burst := min(max(p.bursts/sharing, 1), maxBurst)
	saved := int64(0) // by a holder that waits: nothing in a time that has yet to pass again
	if s.lasts(p.latest) && s.burst == 0 {
		saved = s.rest(now, p.unit)
	}
	if !p.bucket {
		return p.ofWindow(s, now, keeps, burst)
	}
	free := max(p.stock-p.others.committed(p.refill, now), 0) + saved
	if keeps {
		most := s.burst
		if grows && !s.mayRefill(p.latest) {
			before := max(p.others.rate+s.rateAt(p.latest)-p.refill, 0) * store.OnTheWay // until the message arrives
			most = max(most, min(most+floorDiv(free-before, unitsPerHit), p.bursts-p.others.burst))
		}
		burst = min(burst, most)
		p.stock -= max(burst-s.burst, 0) * unitsPerHit
		lacks := burst*unitsPerHit - s.rest(p.latest, p.unit)
		switch {
		case !s.mayRefill(p.latest) || lacks <= 0:
		case lacks > free:
			burst = 0
		default:
			p.stock -= lacks
		}
	} else {
		burst = max(min(burst, p.bursts-p.others.burst, free/unitsPerHit), 0)
		p.stock -= burst*unitsPerHit - saved
	}
	total := p.refill + floorDiv(p.stock, p.lasting)
	if p.stock > 0 {
		total = p.refill + p.stock/(2*p.lasting)
	}
	return offer{p.rate(s, total, total-p.others.rate), burst}
}

// ofWindow returns what the holder of s can get of a window, with this burst at most.
func (p *pool) ofWindow(s *share, now int64, keeps bool, burst int64) offer {
	own := min(s.ahead(now, p.unit), s.left) // what it gives up for it
	if keeps {
		own = s.left
	}
	spare := min(p.stock+own, p.most-p.others.left)
	taken := s.rest(now, p.unit)
	if keeps {
		burst = min(burst, s.burst)
		if s.mayRefill(now) {
			taken = max(taken, burst*unitsPerHit)
		}
	} else {
		burst = max(min(burst, p.bursts-p.others.burst, spare/unitsPerHit), 0)
		taken = burst * unitsPerHit
	}
	total := min(p.total(), max(p.stock+own+p.others.left, 0)/p.lasting)
	free := (spare - taken - p.unit) / p.lasting // the share is rounded up
	if late := min(store.OnTheWay, s.end-now); keeps && free < s.rateAt(now) {
		free = (spare - taken - p.unit - s.rateAt(now)*late) / (p.lasting - late)
	}
	return offer{p.rate(s, total, free), burst}
}

// rate returns the fair rate of the holder of s; 0 if none is free.
func (p *pool) rate(s *share, total, free int64) int64 {
	if free < 1 {
		return 0
	}
	return max(min(fairRate(total, s.want, p.wants), free, maxRate), 1)
}

// renew makes the offer the holder's share; without a burst the holder waits, and what is
// reserved for it goes into its first burst. It returns the units that the counter gets
// back, negative for what it gives, and the units that the holder has forfeited.
func (s *share) renew(o offer, p *pool, now int64, keeps bool) (back, forfeited int64) {
	held, rest := s.reserved(p.latest), s.rest(p.latest, p.unit)
	switch {
	case keeps && s.mayRefill(p.latest):
		rest = max(rest, o.burst*unitsPerHit)
	case keeps: // a larger bucket gets the difference at most
		rest += max(o.burst-s.burst, 0) * unitsPerHit
	case s.lasts(p.latest) && s.burst == 0:
		if rest = min(s.rest(now, p.unit), max(p.bursts/4, 1)*unitsPerHit); o.burst > 0 {
			rest = o.burst * unitsPerHit
		}
	default:
		held, forfeited, rest = s.left-rest, rest, o.burst*unitsPerHit
	}
	more, cut := int64(0), int64(0)
	if s.assigned(p.latest) { // its bucket is filled at the old rate until the message arrives
		more, cut = max(s.rateAt(p.latest)-o.rate, 0), min(now+store.OnTheWay, s.end)
	}
	s.more, s.cut, s.rate, s.burst, s.end = more, cut, o.rate, o.burst, now+p.lasting
	s.left = rest + p.roundUp(s.ahead(now, 1))
	return held - s.left, forfeited
}

// roundDown returns units rounded down to what the counter can get.
func (p *pool) roundDown(units int64) int64 { return max(units-units%p.unit, 0) }

// roundUp returns units rounded up to what the counter can give.
func (p *pool) roundUp(units int64) int64 { return ceilDiv(units, p.unit) * p.unit }
