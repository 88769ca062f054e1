package trial

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store"
)

// seeded is a store whose counters begin as copies of the counters in force, when a call first
// uses them. The rules in force have counted the call by then: seeded gives back what they
// counted before the trial decides it.
type seeded struct {
	store.Store
	copy func(ctx context.Context, rules []*store.Rule) ([]time.Time, error) // nil copies nothing

	mu   sync.Mutex
	seen map[uint64]*seed
}

// seed is a counter that was copied, or is being copied.
type seed struct {
	done   chan struct{} // closed when the copy is made
	copied time.Time     // when that began; zero without a copy
}

// maxSeen bounds the memory of the counters that were copied. After it the memory begins
// afresh; copying again changes nothing.
const maxSeen = 200_000

// triedKey and reversalKey are the keys of a tried and of a reversal in a context.
type (
	triedKey    struct{}
	reversalKey struct{}
)

// tried is the call that a plan of the trial decides.
type tried struct {
	trial  *Trial
	sample *sample
}

// reversal gives back the hits that the rules in force counted for a call.
type reversal struct {
	sample *sample
	copies map[uint64]bool // the counters that contain the call
}

// Evaluate copies the counters that the plan is the first to use, and evaluates it.
func (s *seeded) Evaluate(ctx context.Context, p *store.Plan, a *store.Answers) error {
	if r, reverses := ctx.Value(reversalKey{}).(*reversal); reverses {
		return s.Store.Evaluate(ctx, r.planOf(p), a)
	}
	call, known := ctx.Value(triedKey{}).(*tried)
	if s.copy == nil || !known {
		return s.Store.Evaluate(ctx, p, a)
	}
	copies, err := s.begin(ctx, p, call.sample.at)
	if err != nil {
		return err
	}
	if len(copies) > 0 {
		switch op := call.sample.call.Op; {
		case op == engine.Refund || op == engine.Reset:
			a.Reset(len(p.Sets)) // the copies have it
			a.Now = call.sample.at.UnixMilli()
			return nil
		case op != engine.Browse && op != engine.Complete:
			if err := call.trial.reverse(ctx, call.sample, copies); err != nil {
				return err
			}
			if !call.sample.refused { // else the rules in force gave nothing back
				p = withoutRefunds(p, copies)
			}
		}
	}
	return s.Store.Evaluate(ctx, p, a)
}

// begin copies the counters of a plan that were not used before, and returns those whose
// copies were made after the call, and contain it.
func (s *seeded) begin(ctx context.Context, p *store.Plan, at time.Time) (copies map[uint64]bool, err error) {
	var mine []*store.Rule
	var fresh, all []*seed
	var keys []uint64
	s.mu.Lock()
	if s.seen == nil || len(s.seen) > maxSeen {
		s.seen = make(map[uint64]*seed)
	}
	for i := range p.Sets {
		for j := range p.Sets[i].Rules {
			r := &p.Sets[i].Rules[j]
			key := counterKey(r)
			one := s.seen[key]
			if one == nil {
				one = &seed{done: make(chan struct{})}
				s.seen[key] = one
				mine, fresh = append(mine, r), append(fresh, one)
			}
			all, keys = append(all, one), append(keys, key)
		}
	}
	s.mu.Unlock()
	if err := s.copyTo(ctx, mine, fresh); err != nil {
		s.mu.Lock()
		for _, r := range mine {
			delete(s.seen, counterKey(r)) // the next call tries again
		}
		s.mu.Unlock()
		return nil, err
	}
	for i, one := range all {
		select {
		case <-one.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if one.copied.After(at) {
			if copies == nil {
				copies = make(map[uint64]bool)
			}
			copies[keys[i]] = true
		}
	}
	return copies, nil
}

// copyTo copies the counters of rules, whose seeds others may wait for.
func (s *seeded) copyTo(ctx context.Context, rules []*store.Rule, seeds []*seed) error {
	if len(rules) == 0 {
		return nil
	}
	copied, err := s.copy(ctx, rules)
	for i, one := range seeds {
		if err == nil {
			one.copied = copied[i]
		}
		close(one.done)
	}
	return err
}

// counterKey identifies the counter of a rule.
func counterKey(r *store.Rule) uint64 {
	const golden = 0x9e3779b97f4a7c15 // spreads consecutive numbers
	return maphash.Bytes(keySeed, r.Subject) ^ uint64(r.Tag())*golden
}

var keySeed = maphash.MakeSeed()

// reverse gives back the hits that the rules in force counted for a call on these counters.
func (t *Trial) reverse(ctx context.Context, s *sample, copies map[uint64]bool) error {
	if s.inForce == nil {
		return nil
	}
	c := s.call
	c.Rules = s.inForce
	if s.limits != nil {
		c.Source = matchOnly{s.limits}
	}
	d, err := t.engine.Decide(context.WithValue(ctx, reversalKey{}, &reversal{s, copies}), &c)
	if err == nil {
		err = d.Cause
	}
	return err
}

// matchOnly is a source whose limits decide nothing together.
type matchOnly struct{ engine.Source }

// Conclude implements engine.Source.
func (matchOnly) Conclude(*engine.Decision) {}

// withoutRefunds returns a plan that gives nothing back on counters that contain the call: the rules in
// force have given it back there. Unlike what they counted it cannot be undone, since a counter that
// became empty does not tell how many hits it had.
func withoutRefunds(p *store.Plan, copies map[uint64]bool) *store.Plan {
	own := *p
	own.Sets = slices.Clone(p.Sets)
	for i := range own.Sets {
		set := &own.Sets[i]
		if !set.Refund {
			continue
		}
		set.Rules = slices.Clone(set.Rules)
		for j := range set.Rules {
			if copies[counterKey(&set.Rules[j])] {
				set.Rules[j].Weight = 0
			}
		}
	}
	return &own
}

// planOf returns the plan that gives back the hits of a plan of the rules in force.
func (r *reversal) planOf(p *store.Plan) *store.Plan {
	back := &store.Plan{Op: store.Refund, Zone: p.Zone, Sets: make([]store.Set, len(p.Sets))}
	for i := range p.Sets {
		if p.Sets[i].Refund {
			continue
		}
		decider := int64(-1)
		if rule := r.sample.outcomes[i].Rule; rule != nil && (p.Op == store.Take || p.Op == store.Browse) {
			decider = rule.Return
		}
		for _, one := range p.Sets[i].Rules {
			decides := one.Return == decider
			// A refused call has counted its overdrafts alone, and an allowed one the rules
			// before the rule that allows it.
			counted := one.Overdraft || !r.sample.refused && !decides
			if counted && r.copies[counterKey(&one)] {
				back.Sets[i].Rules = append(back.Sets[i].Rules, one)
			}
			if decides {
				break
			}
		}
	}
	return back
}
