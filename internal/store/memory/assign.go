package memory

import (
	"context"

	"github.com/koalagate/koalagate/internal/store"
)

// loan is the share of one counter in an assignment.
type loan struct {
	rule    *store.Rule
	counter lender
	pool    pool
	list    shares
	share   share
	known   bool  // the holder has a share, if only an ended one
	alike   int64 // the rate that another holder of its name wants, 0 without one
	keeps   bool  // the holder keeps its bucket
	back    int64 // units that the counter gets back
	offer   offer
}

// Assign records what a holder has used of its share of counters, and assigns the next, in
// one atomic step.
func (m *Store) Assign(ctx context.Context, u *store.Usage) (a store.Assignment, err error) {
	if err := ctx.Err(); err != nil {
		return a, err
	}
	if err := u.Validate(); err != nil {
		return a, err
	}
	s := m.steps.Get().(*step)
	defer m.steps.Put(s)
	if u.Look {
		return s.look(u), nil
	}
	if a = s.assign(u); a.Reason == store.OutOfMemory {
		m.shared.Add(1)
		if m.onFull != nil {
			m.onFull()
		}
	}
	m.sweep(a.Now)
	return a, nil
}

// assign carries out a usage under the locks of its counters.
func (s *step) assign(u *store.Usage) (a store.Assignment) {
	s.begin(&store.Plan{Op: store.Update, Now: u.Now, Zone: u.Zone, Sets: []store.Set{{Rules: u.Rules}}})
	defer s.end()
	s.readClock()
	a.Now = s.at.now
	loans := make([]loan, len(u.Rules))
	for j := range loans {
		c, r := s.change(0, j), &u.Rules[j]
		switch {
		case s.places[j].counter == nil:
			a.Reason, a.Rule = store.OutOfMemory, j
			return a
		case c.banned(s.at.now):
			c.read(r, &s.at, &s.got)
			a.Reason, a.Rule, a.Banned = store.BannedNow, j, s.got.reset
			return a
		}
		loans[j].counter, loans[j].rule = s.lender(j, r), r
	}
	for j := range loans {
		a.Debt = max(a.Debt, loans[j].begin(u, &s.at))
	}
	decideLoans(loans, u, s.at.now, &a)
	for j := range loans {
		l := &loans[j]
		l.counter.lend(l.rule, &s.at, l.back, l.list.with(&l.share, s.at.now), l.pool.tide)
	}
	best, lasts := heldOf(loans, u.Lasts, a.Now)
	a.Rate, a.Burst, a.Lasts = best.rate, best.burst, lasts
	l := &loans[a.Rule]
	a.Lent, a.Limit, a.Holders = l.pool.others.rate, l.pool.total(), int64(len(l.pool.wants))
	if l.share.counts(s.at.now) {
		a.Lent, a.Holders = a.Lent+l.share.rate, a.Holders+1
	}
	return a
}

// look returns what all holders have of the only counter.
func (s *step) look(u *store.Usage) (a store.Assignment) {
	s.begin(&store.Plan{Op: store.Peek, Now: u.Now, Zone: u.Zone, Sets: []store.Set{{Rules: u.Rules}}})
	defer s.end()
	s.readClock()
	a.Now = s.at.now
	l, lends := s.own(0, 0).(lender)
	if !lends {
		return a
	}
	l = l.clone().(lender)
	p, list := l.pool(&u.Rules[0], &s.at), l.lent(a.Now)
	if holders := list.wants(a.Now, store.HolderID{}); len(holders) > 0 {
		p.lasting = u.Lasts + store.OnTheWay
		a.Lent, a.Limit, a.Holders = list.sum(a.Now, store.HolderID{}).rate, p.total(), int64(len(holders))
	}
	return a
}

// lender returns the counter of rule j as one of which shares are assigned.
func (s *step) lender(j int, r *store.Rule) lender {
	p := &s.places[j]
	if l, lends := p.counter.(lender); lends {
		return l
	}
	var l lender
	switch c := p.counter.(type) {
	case *bucket:
		l = &lentBucket{bucket: *c}
	case *window:
		l = &lentWindow{window: *c}
	}
	p.counter, p.shard.cell(p.subject, r).counter = l, l
	return l
}

// begin records what the holder has used of the counter, and returns its debt in hits.
func (l *loan) begin(u *store.Usage, t *moment) (debt int64) {
	id := u.ID()
	if l.pool, l.list = l.counter.pool(l.rule, t), l.counter.lent(t.now); u.Returns {
		l.list = l.list.returned(t.now, id)
	}
	if at := l.list.namesake(t.now, id); at >= 0 {
		l.alike = l.list[at].want
	}
	l.share, l.known = l.list.find(t.now, id)
	l.pool.others, l.pool.wants, l.pool.lasting = l.list.sum(t.now, id), l.list.wants(t.now, id), u.Lasts+store.OnTheWay
	if u.Reported {
		l.back = l.share.record(u, &l.pool, t.now)
		l.pool.tide.high += max(l.back, 0)
	}
	if u.Reported || !l.known {
		l.share.seen = t.now
	}
	l.keeps = l.share.assigned(l.pool.latest) && !u.Fresh
	return ceilDiv(max(-l.back, 0), unitsPerHit)
}

// decideLoans decides what the holder gets, the same of all counters.
func decideLoans(loans []loan, u *store.Usage, now int64, a *store.Assignment) {
	if u.Leave {
		a.Reason = store.HasLeft
		for j := range loans {
			loans[j].leave(a)
		}
		return
	}
	lasts := u.Lasts
	for j := range loans {
		l := &loans[j]
		left := l.pool.longest(u.Lasts, now)
		switch {
		case now-l.share.seen > store.ReportWithin, !l.known && !u.Reported && l.alike > 0:
			a.Reason, a.Rule = store.Silent, j
		case left < 1000:
			a.Reason, a.Rule = store.WindowEnds, j
		case !l.known && len(l.pool.wants) >= store.MaxHolders:
			a.Reason, a.Rule = store.TooMany, j
		}
		lasts = min(lasts, left)
	}
	if a.Reason == store.Assigned {
		offerAll(loans, u, lasts, now, a)
		return
	}
	for j := range loans {
		if l := &loans[j]; !l.known {
			l.share = share{id: l.share.id}
		}
	}
}

// offerAll gives the holder the least of what all counters offer, or lets it wait.
func offerAll(loans []loan, u *store.Usage, lasts, now int64, a *store.Assignment) {
	best, keeps := offer{maxRate, maxBurst}, true
	for j := range loans {
		l := &loans[j]
		l.pool.lasting = lasts + store.OnTheWay
		l.share.wish(u, l.pool.total(), l.alike)
		l.offer = l.pool.offer(&l.share, now, l.keeps, u.Reported)
		if l.offer.rate < best.rate {
			a.Rule = j
		}
		best = offer{min(best.rate, l.offer.rate), min(best.burst, l.offer.burst)}
		keeps = keeps && l.keeps
	}
	switch {
	case best.rate == 0:
		a.Reason = store.NoRate
	case best.burst == 0:
		a.Reason = store.NoBurst
	case keeps && !u.Reported && allStay(loans, best, now):
		return
	default:
		a.Send = true
	}
	for j := range loans {
		l := &loans[j]
		switch {
		case a.Send:
			l.offer = best
		case l.keeps:
			continue // it keeps what it has, until that ends
		case l.pool.bucket: // what is reserved goes into its first burst
			l.offer.burst = 0
		default:
			l.offer = offer{}
		}
		back, forfeited := l.share.renew(l.offer, &l.pool, now, l.keeps)
		l.back += back
		a.Forfeited = max(a.Forfeited, forfeited/unitsPerHit)
	}
}

// heldOf returns the least that the holder has of all counters, for most at the longest, and no
// more than their rules lend now.
func heldOf(loans []loan, most, now int64) (best offer, lasts int64) {
	best, lasts = offer{maxRate, maxBurst}, most
	for j := range loans {
		s, p := &loans[j].share, &loans[j].pool
		left := (s.end - now - store.OnTheWay) / 1000 * 1000
		if !s.assigned(now) || left <= 0 {
			return offer{}, 0
		}
		best, lasts = offer{min(best.rate, s.rate, p.fastest), min(best.burst, s.burst, p.bursts)}, min(lasts, left)
	}
	if best.rate < 1 || best.burst < 1 {
		return offer{}, 0
	}
	return best, lasts
}

// allStay reports whether the best offer changes so little that the holder need not get it.
func allStay(loans []loan, best offer, now int64) bool {
	for j := range loans {
		s := &loans[j].share
		change := max(best.rate-s.rate, s.rate-best.rate)
		if best.burst != s.burst || change*10 > s.rate || s.end-now <= store.OnTheWay+endsSoon {
			return false
		}
	}
	return true
}

// endsSoon is how long before its end a share is renewed without a report, in ms.
const endsSoon = 2000

// leave ends the share. What the holder may have admitted, or may admit until the message
// arrives, is lost.
func (l *loan) leave(a *store.Assignment) {
	s, now := &l.share, l.pool.latest
	free := s.reserved(now)
	if s.assigned(now) {
		free = min(l.pool.roundDown(s.ahead(now, 1)-s.rateAt(now)*min(store.OnTheWay, s.end-now)), s.left)
	}
	a.Forfeited = max(a.Forfeited, (s.left-free)/unitsPerHit)
	l.back, l.share = l.back+free, share{id: s.id}
}
