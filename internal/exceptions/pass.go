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

// view is what the exceptions for the engine are made of.
type view struct {
	set      *rules.Set // nil for none yet
	ordered  []*Exception
	resolved map[string]engine.Exception // by ID; what is missing is resolved anew
	ready    *passed                     // nil if it must be made
}

// maxAttempts is how often the exceptions are made ready anew because others changed them
// meanwhile, before the others have to wait.
const maxAttempts = 3

// renew passes the exceptions to the engine as they are after a change of their view: in pauses of
// decisions, for which neither new rules nor questions wait, unless there are several changes at a
// time. The change may be repeated.
func (k *Keeper) renew(pause func(), change func(v *view)) {
	for range maxAttempts {
		k.mu.Lock()
		v, edits := k.viewAfter(change), k.edits
		k.mu.Unlock()
		k.prepare(v, pause)
		k.mu.Lock()
		isCurrent := k.edits == edits
		if isCurrent {
			k.use(v)
		}
		k.mu.Unlock()
		if isCurrent {
			return
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	v := k.viewAfter(change)
	k.prepare(v, func() {})
	k.use(v)
}

// viewAfter returns the view after a change. k.mu is held.
func (k *Keeper) viewAfter(change func(v *view)) *view {
	v := &view{set: k.set, ordered: k.ordered, resolved: k.resolved}
	change(v)
	return v
}

// replace replaces the exceptions. k.changing is held.
func (k *Keeper) replace(all map[string]*Exception, ordered []*Exception, pause func()) {
	k.all = all
	k.renew(pause, func(v *view) { v.ordered = ordered })
}

// prepare makes the exceptions of a view ready for the engine, unless they are.
func (k *Keeper) prepare(v *view, pause func()) {
	if v.ready == nil && v.set != nil {
		v.ready = k.pass(v.set, v.resolved, v.ordered, pause)
	}
}

// pass resolves exceptions by a rule set for the engine. Those of resolved are known by their IDs.
func (k *Keeper) pass(set *rules.Set, resolved map[string]engine.Exception, ordered []*Exception, pause func()) *passed {
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

// use makes a view the current one, and passes its exceptions to the engine. k.mu is held.
func (k *Keeper) use(v *view) {
	k.set, k.ordered, k.resolved = v.set, v.ordered, v.resolved
	k.edits++
	p := v.ready
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
