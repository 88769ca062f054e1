package engine

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/rules"
)

// Evaluator is what the engine needs of a store.
type Evaluator interface {
	Evaluate(ctx context.Context, p *store.Plan, a *store.Answers) error
}

// Engine decides calls by the rules in force. It is safe for concurrent use.
type Engine struct {
	store    Evaluator
	rules    atomic.Pointer[rules.Set]
	modes    *Modes
	policies Policies
	observe  func(*Call, *Decision, error)
	work     sync.Pool
}

// Option changes an Engine.
type Option func(*Engine)

// Observe has f called after every decision, in the caller's goroutine. It
// must not keep what it is given.
func Observe(f func(*Call, *Decision, error)) Option {
	return func(e *Engine) { e.observe = f }
}

// New returns an engine that counts in s and decides by set.
func New(s Evaluator, set *rules.Set, options ...Option) *Engine {
	e := &Engine{store: s, modes: new(Modes)}
	e.rules.Store(set)
	e.work.New = func() any { return new(work) }
	for _, o := range options {
		o(e)
	}
	return e
}

// Rules is the generation in force. A door takes it once a call, maps with it
// and hands it to Decide.
func (e *Engine) Rules() *rules.Set { return e.rules.Load() }

// Swap puts a new generation in force. Calls under way end with the one that
// they began with.
func (e *Engine) Swap(set *rules.Set) { e.rules.Store(set) }

// Decide answers a call as the mode of its door says. The error is the call's
// Fault, an InvalidError, or that of the caller's own context; a store that is
// away is no error but a Decision.
func (e *Engine) Decide(ctx context.Context, c *Call) (*Decision, error) {
	d, err := e.decideIn(ctx, e.modes.Of(c.Door), c)
	if e.observe != nil {
		e.observe(c, d, err)
	}
	return d, err
}

func (e *Engine) decideIn(ctx context.Context, mode Mode, c *Call) (*Decision, error) {
	if mode == ModeOff && passes(c.Op) {
		return pass(c, ModeOff, rules.Allow), nil
	}
	w := e.work.Get().(*work)
	defer e.work.Put(w)
	d, err := e.decide(ctx, c, w)
	if mode == ModeObserve && decides(c.Op) {
		return observed(c, d, err)
	}
	return d, err
}

func (e *Engine) decide(ctx context.Context, c *Call, w *work) (*Decision, error) {
	if c.Fault != nil {
		return nil, c.Fault
	}
	set := c.Rules
	if set == nil {
		set = e.Rules()
	}
	if w.rules != set {
		// What stands behind the parameter sets of this call, of one before it
		// that had more, would keep all of a former generation.
		*w = work{rules: set}
	}
	w.door = e.policies[c.Door]
	if err := w.plan(set, c); err != nil {
		return nil, err
	}
	if w.counts() {
		if err := e.store.Evaluate(ctx, &w.store, &w.answers); err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return &Decision{Verdict: rules.Deny, Refuser: -1, Unavailable: true, Cause: err}, nil
		}
	} else {
		w.answerUncounted()
	}
	return w.decision(set, c), nil
}
