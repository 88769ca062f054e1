package lease

import (
	"context"
	"time"

	"github.com/koalagate/koalagate/internal/method"
	"github.com/koalagate/koalagate/internal/store"
)

// request is a request to Redis for a part, which is marked as asking: for more hits or,
// with back, to give all of them back.
type request struct {
	part *part
	back bool
}

// start begins a request in the background.
func (s *Store) start(r request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed { // Close gives back
		s.unclaim(r.part)
		return
	}
	s.run(func() { s.renew(r) })
}

// drift is the part of its time by which a part ends early here: clocks of machines may
// differ in speed by a hundredth.
const drift = 100

// lasting returns how long a part of the rule lasts. After a ban the counter is empty, so
// that no part may last longer.
func (s *Store) lasting(r *store.Rule) time.Duration {
	if ban := time.Duration(r.Ban) * time.Second; ban > 0 {
		return min(s.lasts, ban)
	}
	return s.lasts
}

// renew reports to Redis what the part holds, and requests more or gives hits back. It is
// finished although the Store closes: the store in Redis bounds its time.
func (s *Store) renew(r request) {
	p := r.part
	shard, _ := s.at([]byte(p.name))
	shard.Lock()
	begun := s.clock()
	lasts := s.lasting(&p.rule)
	l := store.Lease{Now: s.now(), Rule: p.rule, Era: p.era, Ends: p.ends, Drop: p.recorded, Lasts: lasts.Milliseconds()}
	want := p.want(begun)
	if r.back || begun >= p.until {
		l.Back, p.held = p.held, 0
	} else {
		l.Keep = p.held
	}
	if !r.back {
		l.Ask = max(want-l.Keep, 0)
	}
	p.asked, p.sent = begun, p.sent+1
	shard.Unlock()

	g, err := s.shared.Lease(context.Background(), &l)

	shard.Lock()
	defer shard.Unlock()
	p.asking = false
	if err != nil {
		s.lost.Add(l.Back)
		p.recorded, p.pause = 0, begun+afterFail // what Redis has recorded is unknown
		return
	}
	s.take(p, &l, g, lasts)
	if l.Ask > 0 && g.Granted < 2 { // the limit is near
		p.pause = begun + afterNone
	}
	if s.seed != nil {
		s.seedNext(p, g)
	}
}

// take makes a grant the part's.
func (s *Store) take(p *part, l *store.Lease, g store.Grant, lasts time.Duration) {
	p.recorded = g.Granted
	if g.Era != l.Era || l.Era == 0 || g.Now >= l.Ends { // Redis has kept nothing
		s.lost.Add(l.Back + p.held)
		p.held = 0
	} else {
		back := min(l.Back, max(l.Drop-l.Keep, 0))
		s.back.Add(back)
		s.lost.Add(l.Back - back)
		p.recorded += l.Keep
	}
	p.held += g.Granted
	s.granted.Add(g.Granted)
	p.era, p.ends, p.state, p.stated = g.Era, g.Ends, g, p.asked
	lasts = min(lasts, time.Duration(g.Ends-g.Now)*time.Millisecond)
	if method.Of(p.rule.Method).Windows {
		lasts = min(lasts, time.Duration(g.Reset)*time.Millisecond)
	}
	p.until = p.asked + lasts - lasts/drift - time.Millisecond
}

// seedNext shows the state of the counter to the store that answers when Redis is
// unreachable.
func (s *Store) seedNext(p *part, g store.Grant) {
	plan := store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{p.rule}}}}
	var a store.Answers
	a.Reset(1)
	a.Now = g.Now
	a.Sets[0].Reporter, a.Sets[0].Limit, a.Sets[0].Remaining, a.Sets[0].Reset = 0, p.limit(), g.Remaining, g.Reset
	s.seed(&plan, &a)
}

// giveUp gives back the parts of the plan's counters, and waits for it.
func (s *Store) giveUp(p *store.Plan) {
	for i := range p.Sets {
		for j := range p.Sets[i].Rules {
			if one := s.claim(&p.Sets[i].Rules[j]); one != nil {
				s.renew(request{part: one, back: true})
			}
		}
	}
}

// setLeased sets how many hits other instances hold of the counter of a peek.
func (s *Store) setLeased(ctx context.Context, p *store.Plan, a *store.Answers) {
	for i := range p.Sets {
		if len(p.Sets[i].Rules) == 0 || p.Sets[i].Rules[0].Lease == 0 {
			continue
		}
		r := &p.Sets[i].Rules[0]
		g, err := s.shared.Lease(ctx, &store.Lease{Now: p.Now, Rule: *r})
		if err != nil {
			continue
		}
		var memory [maxName]byte
		name := appendName(memory[:0], r)
		shard, _ := s.at(name)
		shard.Lock()
		if one := shard.parts[string(name)]; one != nil && one.era == g.Era {
			g.Held -= one.recorded
		}
		shard.Unlock()
		a.Sets[i].Leased = max(g.Held, 0)
	}
}
