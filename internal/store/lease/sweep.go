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

// chore is a part with a request to make.
type chore struct {
	part *part
	back bool
}

// Sweep gives back what idle parts hold, renews parts that end soon, and forgets parts
// that hold nothing. It is called at intervals, unless Options.Run is set.
func (s *Store) Sweep() {
	now := s.clock()
	var chores []chore
	for i := range s.shards {
		one := &s.shards[i]
		one.Lock()
		for name, p := range one.parts {
			idle := now-p.used >= s.lasts/8
			switch {
			case p.asking:
			case p.holds() && (idle || now >= p.until-s.lasts/4):
				p.asking = true
				chores = append(chores, chore{p, idle})
			case idle && now >= p.pause:
				p.gone = true
				delete(one.parts, name)
			}
		}
		one.Unlock()
	}
	s.carryOut(s.ctx, chores)
}

// carryOut makes the requests, several at a time. When ctx is done, no further one begins.
func (s *Store) carryOut(ctx context.Context, chores []chore) {
	if s.alone {
		for _, c := range chores {
			s.renew(context.Background(), c.part, c.back) //nolint:contextcheck // as below
		}
		return
	}
	var workers sync.WaitGroup
	next := make(chan chore)
	for range min(sweepers, len(chores)) {
		workers.Go(func() {
			for c := range next {
				if ctx.Err() != nil {
					s.leave(c.part)
				} else {
					s.renew(context.Background(), c.part, c.back) //nolint:contextcheck // a request that has begun is finished
				}
			}
		})
	}
	for _, c := range chores {
		next <- c
	}
	close(next)
	workers.Wait()
}

// leave unmarks a part without a request.
func (s *Store) leave(p *part) {
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
	var chores []chore
	for i := range s.shards {
		one := &s.shards[i]
		one.Lock()
		for _, p := range one.parts {
			if p.holds() {
				p.asking = true
				chores = append(chores, chore{p, true})
			}
		}
		one.Unlock()
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(s.lasts, maxGiveBack))
	defer cancel()
	s.carryOut(ctx, chores)
	for _, c := range chores {
		shard, _ := s.at([]byte(c.part.name))
		shard.Lock()
		s.lost.Add(c.part.held)
		c.part.held = 0
		shard.Unlock()
	}
}
