package exceptions

import (
	"context"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/pace"
	"github.com/koalagate/koalagate/rules"
)

// passed are exceptions that are ready for the engine.
type passed struct {
	list  []engine.Exception
	fresh []engine.Exception // of list, which were not resolved before
	use   func()             // by the engine
}

// pausing returns a function for the pauses of work that goes on after its caller has left.
func pausing(ctx context.Context) (pause func()) {
	ctx = pace.With(ctx)
	left := pace.With(context.WithoutCancel(ctx))
	return func() {
		if pace.Step(ctx) != nil {
			_ = pace.Step(left) // which never ends
		}
	}
}

// replace replaces the exceptions: in pauses of decisions, for which neither new rules nor
// questions wait. k.changing is held.
func (k *Keeper) replace(all map[string]*Exception, ordered []*Exception, pause func()) {
	k.mu.Lock()
	set, resolved, uses := k.set, k.resolved, k.uses
	k.mu.Unlock()
	ready := k.pass(set, resolved, ordered, pause)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all, k.ordered = all, ordered
	if k.uses != uses {
		k.apply()
		return
	}
	k.use(ready)
}

// apply passes the exceptions to the engine. k.mu is held.
func (k *Keeper) apply() { k.use(k.pass(k.set, k.resolved, k.ordered, func() {})) }

// pass resolves exceptions by a rule set, nil for none yet, for the engine. Those of resolved are
// known by their IDs.
func (k *Keeper) pass(set *rules.Set, resolved map[string]engine.Exception, ordered []*Exception, pause func()) *passed {
	if set == nil {
		return nil
	}
	now := k.Now()
	p := &passed{list: make([]engine.Exception, 0, len(ordered))}
	for _, x := range after(ordered, now) {
		pause()
		one, known := resolved[x.ID]
		if !known {
			var err error
			if one, _, err = x.resolve(set, k.limits); err != nil {
				continue // the rules changed; another change may bring the rule back
			}
			p.fresh = append(p.fresh, one)
		}
		p.list = append(p.list, one)
	}
	p.use = k.engine.Prepare(p.list, pause)
	return p
}

// use passes exceptions to the engine that are resolved by the current rules. k.mu is held.
func (k *Keeper) use(p *passed) {
	if p == nil {
		return
	}
	for i := range p.fresh {
		k.resolved[p.fresh[i].ID] = p.fresh[i]
	}
	if len(k.resolved) > len(p.list) { // some have ended or were removed
		clear(k.resolved)
		for i := range p.list {
			k.resolved[p.list[i].ID] = p.list[i]
		}
	}
	p.use()
}
