package lease

import (
	"sync/atomic"
	"time"

	"github.com/koalagate/koalagate/internal/store"
)

// demand shows which counters are busy. Counters that share a cell only cause requests
// for parts that are then given back.
type demand [1 << 14]atomic.Uint64

// busyFrom is the weight within 50 ms from which a counter gets a part. Of 20,000 counters
// that share 40,000 hits per second, many get two by chance, and hardly one gets four.
const busyFrom = 4

// add records weight in the cell of a hash and returns the sum of the 50 ms around now.
func (d *demand) add(hash uint64, weight int64, now time.Duration) int64 {
	const most = 1<<32 - 1
	cell, tick := &d[hash>>32%uint64(len(d))], uint64(now/ahead)&most
	for {
		before := cell.Load()
		sum := uint64(weight)
		if before>>32 == tick {
			sum += before & most
		}
		sum = min(sum, most)
		if cell.CompareAndSwap(before, tick<<32|sum) {
			return int64(sum)
		}
	}
}

// measure counts the weights of a take that was passed on, and asks for parts of its
// counters if they are busy. usable reports whether parts could have answered it.
func (s *Store) measure(p *store.Plan, a *store.Answers, usable bool) {
	allowed := true
	for i := range a.Sets {
		if d := a.Sets[i].Decider; d >= 0 {
			allowed = false
			if a.Sets[i].Early {
				s.early.Add(1)
			}
			if r := &p.Sets[i].Rules[d]; a.Sets[i].Early || a.Sets[i].Banned || r.Overdraft {
				s.giveBackRefused(r)
			}
		}
	}
	if !allowed || !usable {
		return
	}
	now := s.clock()
	for i := range p.Sets {
		for j := range p.Sets[i].Rules {
			if r := &p.Sets[i].Rules[j]; r.Weight > 0 {
				s.measureRule(r, now)
			}
		}
	}
}

// measureRule counts a weight that the next store has counted.
func (s *Store) measureRule(r *store.Rule, now time.Duration) {
	var memory [maxName]byte
	name := appendName(memory[:0], r)
	shard, hash := s.at(name)
	sum := s.demand.add(hash, r.Weight, now)
	shard.Lock()
	one := shard.parts[string(name)]
	if one == nil {
		if sum == r.Weight || sum < busyFrom || len(shard.parts) >= maxParts {
			shard.Unlock()
			return
		}
		one = &part{name: string(name), taken: sum - r.Weight, asked: now - ahead}
		one.adopt(r)
		shard.parts[one.name] = one
	}
	one.taken += r.Weight
	one.used = now
	giveUp := !one.concerns(r)
	if giveUp && one.held == 0 && !one.asking {
		one.adopt(r)
		giveUp = false
	}
	ask := !one.asking && (giveUp || one.low(now)) && one.most() > 0
	if ask {
		one.asking = true
	}
	shard.Unlock()
	if ask {
		s.start(request{part: one, back: giveUp})
	}
}

// giveBackRefused gives back the part of a rule that Redis has refused: because of what
// instances hold, or although this instance would admit more.
func (s *Store) giveBackRefused(r *store.Rule) {
	if one := s.claim(r); one != nil {
		s.start(request{part: one, back: true})
	}
}

// claim returns the part of a rule that holds hits and has no request under way, and marks
// it as asking; else nil.
func (s *Store) claim(r *store.Rule) *part {
	var memory [maxName]byte
	name := appendName(memory[:0], r)
	shard, _ := s.at(name)
	shard.Lock()
	defer shard.Unlock()
	one := shard.parts[string(name)]
	if one == nil || one.asking || one.held == 0 {
		return nil
	}
	one.asking = true
	return one
}
