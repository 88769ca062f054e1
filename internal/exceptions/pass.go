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
	added bool               // use adds list to the exceptions of the engine, instead of replacing them
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
	added    []*Exception                // the new exceptions of ordered, if nothing else has changed; else nil
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
	if v.ready != nil || v.set == nil {
		return
	}
	if v.added != nil {
		p := k.resolve(v, v.added, pause)
		if p.added, p.use = true, k.engine.PrepareMore(p.list, pause); p.use != nil {
			v.ready = p
			return
		}
	}
	p := k.resolve(v, v.ordered, pause)
	p.use = k.engine.Prepare(p.list, pause)
	v.ready = p
}

// resolve resolves some ordered exceptions of a view by its rule set, for the engine.
func (k *Keeper) resolve(v *view, ordered []*Exception, pause func()) *passed {
	now := k.Now()
	p := &passed{list: make([]engine.Exception, 0, len(ordered))}
	for _, x := range after(ordered, now) {
		pause()
		one, known := v.resolved[x.ID]
		if !known {
			var err error
			if one, _, err = x.resolve(v.set, k.limits); err != nil {
				continue // the rules changed; another change may bring the rule back
			}
			p.fresh = append(p.fresh, one)
		}
		p.list = append(p.list, one)
	}
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
	if !p.added && len(k.resolved) > len(p.list) { // some have ended or were removed
		clear(k.resolved)
		for i := range p.list {
			k.resolved[p.list[i].ID] = p.list[i]
		}
	}
	p.use()
}
