package lease

import (
	"time"

	"github.com/koalagate/koalagate/internal/store"
)

// maxSpent is the number of counters of a plan that parts can answer.
const maxSpent = 16

// spendable reports whether parts can answer the plan: nothing in it needs another
// counter.
func spendable(p *store.Plan) bool {
	if p.Op != store.Take && p.Op != store.Browse {
		return false
	}
	n := 0
	for i := range p.Sets {
		set := &p.Sets[i]
		if set.Refund || !set.Allows {
			return false
		}
		for j := range set.Rules {
			if set.Rules[j].Lease == 0 {
				return false
			}
		}
		n += len(set.Rules)
	}
	return 0 < n && n <= maxSpent
}

// spending is what a plan has taken from parts so far.
type spending struct {
	parts [maxSpent]*part
	sent  [maxSpent]int // of each part, when it was taken
	n     int
}

// answer answers the plan from parts, and reports whether it did: all or nothing.
func (s *Store) answer(p *store.Plan, a *store.Answers) bool {
	var taken spending
	a.Reset(len(p.Sets))
	now := s.clock()
	for i := range p.Sets {
		for j := range p.Sets[i].Rules {
			if !s.spend(p, i, j, now, a, &taken) {
				if p.Op == store.Take {
					s.putBack(p, &taken)
				}
				a.Reset(len(p.Sets))
				return false
			}
		}
	}
	return true
}

// spend takes the weight of a rule from its part, and reports whether that had it. A
// browse takes nothing.
func (s *Store) spend(p *store.Plan, i, j int, now time.Duration, a *store.Answers, taken *spending) bool {
	r := &p.Sets[i].Rules[j]
	var memory [maxName]byte
	name := appendName(memory[:0], r)
	shard, _ := s.at(name)
	shard.Lock()
	one := shard.parts[string(name)]
	if one == nil || !one.admits(r, now) {
		shard.Unlock()
		return false
	}
	if p.Op == store.Take {
		one.held -= r.Weight
		one.taken += r.Weight
		one.used = now
		shard.spent += r.Weight
		taken.parts[taken.n], taken.sent[taken.n] = one, one.sent
		taken.n++
	}
	a.Now = one.state.Now + (now - one.stated).Milliseconds()
	report(&a.Sets[i], one, j, r, now)
	low := one.low(now)
	if low {
		one.asking = true
	}
	shard.Unlock()
	if low {
		s.start(request{part: one})
	}
	return true
}

// report makes the rule the reporter of its set if it has the least remaining.
func report(a *store.Answer, p *part, j int, r *store.Rule, now time.Duration) {
	if r.Shadow {
		return
	}
	if left, reset := p.remaining(now); a.Reporter < 0 || left < a.Remaining {
		a.Reporter, a.Limit, a.Remaining, a.Reset = j, p.limit(), left, reset
	}
}

// putBack returns the hits of a plan to its parts, because another part does not admit it.
// A part that has called Redis meanwhile has reported them as spent: then they are lost.
func (s *Store) putBack(p *store.Plan, taken *spending) {
	at := 0
	for i := range p.Sets {
		for j := range p.Sets[i].Rules {
			if at == taken.n {
				return
			}
			one, weight := taken.parts[at], p.Sets[i].Rules[j].Weight
			shard, _ := s.at([]byte(one.name))
			shard.Lock()
			one.taken -= weight
			shard.spent -= weight
			if !one.gone && one.sent == taken.sent[at] {
				one.held += weight
			} else {
				s.lost.Add(weight)
			}
			shard.Unlock()
			at++
		}
	}
}
