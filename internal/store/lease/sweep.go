package lease

import (
	"context"
	"sync"
	"time"
)

// sweepers is the number of parts that a sweep asks for at a time.
const sweepers = 32

// sweepUntilClosed sweeps eight times in the time that a part lasts.
func (s *Store) sweepUntilClosed() {
	tick := time.NewTicker(max(s.lasts/8, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
			s.Sweep()
		}
	}
}

// Sweep gives back what idle parts hold, renews parts that end soon, and forgets parts
// that hold nothing. It is called at intervals, unless Options.Run is set.
func (s *Store) Sweep() {
	now := s.clock()
	var requests []request
	for i := range s.shards {
		one := &s.shards[i]
		one.Lock()
		for name, p := range one.parts {
			idle := now-p.used >= s.lasts/8
			switch {
			case p.asking:
			case p.holds() && (idle || now >= p.until-s.lasts/4):
				p.asking = true
				requests = append(requests, request{part: p, back: idle})
			case idle && now >= p.pause:
				p.gone = true
				delete(one.parts, name)
			}
		}
		one.Unlock()
	}
	s.carryOut(s.ctx, requests)
}

// carryOut makes the requests, several at a time. When ctx is done, no further one begins.
func (s *Store) carryOut(ctx context.Context, requests []request) {
	if s.alone {
		for _, r := range requests {
			s.renew(r) //nolint:contextcheck // as below
		}
		return
	}
	var workers sync.WaitGroup
	next := make(chan request)
	for range min(sweepers, len(requests)) {
		workers.Go(func() {
			for r := range next {
				if ctx.Err() != nil {
					s.unclaim(r.part)
				} else {
					s.renew(r) //nolint:contextcheck // a request that has begun is finished
				}
			}
		})
	}
	for _, r := range requests {
		next <- r
	}
	close(next)
	workers.Wait()
}

// unclaim unmarks a part for which no request is made.
func (s *Store) unclaim(p *part) {
	shard, _ := s.at([]byte(p.name))
	shard.Lock()
	p.asking = false
	shard.Unlock()
}

// maxGiveBack bounds the time in which Close begins to give back: while Redis does not
// answer, each request would take its budget.
const maxGiveBack = 2 * time.Second

// giveBackAll gives back everything, once nothing is under way. After the time that parts
// last, Redis knows that they have ended.
func (s *Store) giveBackAll() {
	var requests []request
	for i := range s.shards {
		one := &s.shards[i]
		one.Lock()
		for _, p := range one.parts {
			if p.holds() {
				p.asking = true
				requests = append(requests, request{part: p, back: true})
			}
		}
		one.Unlock()
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(s.lasts, maxGiveBack))
	defer cancel()
	s.carryOut(ctx, requests)
	for _, r := range requests {
		shard, _ := s.at([]byte(r.part.name))
		shard.Lock()
		s.lost.Add(r.part.held)
		r.part.held = 0
		shard.Unlock()
	}
}
