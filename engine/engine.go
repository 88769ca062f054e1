package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/rules"
)

// Engine decides calls by the current rules. It is safe for concurrent use. Create an
// Engine with New; the zero value and a nil Engine return an error for every call.
type Engine struct {
	settings
	store       store.Store
	turns       *turns
	rules       atomic.Pointer[rules.Set]
	evaluations sync.Pool
}

// New returns an engine that decides by rs and counts in process. With an rs that is nil,
// or that rules.Parse did not make, every decision is Unavailable until Swap, and its Cause
// is ErrNoRules.
func New(rs *rules.Set, opts ...Option) *Engine {
	e := new(Engine)
	o := options{Engine: &e.settings}
	for _, apply := range opts {
		if apply != nil {
			apply(&o)
		}
	}
	if e.store = o.Store; e.store == nil {
		e.store = memory.New(memory.Options{})
	}
	e.turns = newTurns(e.maxWaiting)
	if e.maxRules < 1 || e.maxRules > store.MaxRules {
		e.maxRules = store.MaxRules
	}
	if e.tooMany == nil {
		e.tooMany = func() {}
	}
	if e.exceptions == nil {
		e.exceptions = new(Exceptions)
	}
	e.evaluations.New = func() any { return new(evaluation) }
	e.Swap(rs)
	e.clock.start()
	return e
}

// ErrNoRules is the Cause of the decisions of an engine without rules.
var ErrNoRules = errors.New("engine: no rules are loaded")

// noRules returns the rule set of an engine without rules, by which it decides nothing.
var noRules = sync.OnceValue(func() *rules.Set {
	const text = `[rules]
[result]
0 : {"Err_no":503}
1 : {"Err_no":503}
`
	none, findings := rules.Parse([]rules.Source{{Name: "no rules", Text: []byte(text)}}, rules.Options{AllowEmpty: true})
	if findings.HasErrors() {
		return new(rules.Set) // Decide returns an error for it
	}
	return none
})

// Rules returns the current generation of rules, never nil. A door calls Rules once
// per call, derives the parameters with the result, and passes it to Decide in
// Call.Rules.
func (e *Engine) Rules() *rules.Set {
	if e != nil {
		if rs := e.rules.Load(); rs != nil {
			return rs
		}
	}
	return noRules()
}

// HasRules reports whether the engine has rules to decide by. While it has none, every
// decision is Unavailable, and Rules returns a set that matches nothing.
func (e *Engine) HasRules() bool { return e.Rules() != noRules() }

// Swap makes rs the current generation of rules. Calls that have begun keep the
// generation that they began with. An rs that is nil, or that rules.Parse did not make, acts
// as in New.
func (e *Engine) Swap(rs *rules.Set) {
	if rs == nil || !rs.IsParsed() {
		rs = noRules()
	}
	e.rules.Store(rs)
}

var errNotBuilt = errors.New("engine: not built with engine.New")

// Decide answers a call as the mode of its door requires. The error is the Fault of
// the call, an InvalidError, or the error of ctx; the Decision is then nil. An
// unavailable store is not an error: the Decision reports it.
func (e *Engine) Decide(ctx context.Context, c *Call) (*Decision, error) {
	if e == nil || e.store == nil {
		return nil, errNotBuilt
	}
	var d *Decision
	err := c.check()
	if err == nil {
		d, err = e.decide(ctx, c)
	}
	if e.observe != nil && c != nil && (!c.Unobserved || c.Charges) {
		e.observe(c, d, err)
	}
	return d, err
}

// decide decides a call that can be decided.
func (e *Engine) decide(ctx context.Context, c *Call) (*Decision, error) {
	mode := e.modes.Of(c.Door)
	if mode == ModeOff && passes(c.Op) {
		return pass(c, ModeOff, rules.VerdictUnset), nil
	}
	v := e.evaluations.Get().(*evaluation)
	defer e.end(v)
	d, err := v.begin(e, c)
	if d == nil && err == nil {
		d, err = e.evaluate(ctx, c, v)
		if err == nil && d.Wait > 0 && c.isHeld() && mode == ModeEnforce {
			d, err = e.hold(ctx, c, v, d)
		}
	}
	decided := err == nil && !d.Unavailable && c.Op.Decides()
	if mode == ModeObserve && c.Op.Decides() {
		d, err = observed(c, d, err)
	}
	if decided && e.matched != nil && !c.Unobserved {
		for i := range d.Answers {
			if !c.Inputs[i].Refund {
				e.matched(c, v.rules, v.inputs[i].observed(&d.Answers[i]), &d.Answers[i])
			}
		}
	}
	return d, err
}

// begin prepares v for a call. It returns a decision or an error if the call needs no
// evaluation.
func (v *evaluation) begin(e *Engine, c *Call) (*Decision, error) {
	if c.Fault != nil {
		return nil, c.Fault
	}
	rs := c.Rules
	if rs == nil {
		rs = e.Rules()
	}
	if rs == noRules() {
		return unavailable(ErrNoRules), nil
	}
	if v.rules != rs {
		if !rs.IsParsed() {
			return nil, invalid("the rule set was not made by rules.Parse")
		}
		// Inputs of earlier calls refer to the former rules, and would keep them in memory.
		*v = evaluation{rules: rs}
	}
	v.door = e.policies[c.Door]
	return nil, nil
}

// end keeps the memory of v for a later call.
func (e *Engine) end(v *evaluation) {
	if v.place.turns != nil {
		v.place.release()
	}
	e.evaluations.Put(v)
}

// evaluate has the store carry out the plan of the call, and returns the decision.
func (e *Engine) evaluate(ctx context.Context, c *Call, v *evaluation) (*Decision, error) {
	if err := e.plan(c, v); err != nil {
		return nil, err
	}
	if v.waits && c.isHeld() {
		e.reserve(ctx, v)
	}
	if v.counts() {
		if err := e.store.Evaluate(ctx, &v.plan, &v.answers); err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return unavailable(err), nil
		}
		if v.rules.Timed() && c.Now == 0 && !v.answers.Degraded {
			e.clock.tell(v.answers.Now)
		}
	} else {
		v.answerUncounted()
	}
	d := v.decision(c)
	if c.Source != nil && !d.Unavailable {
		e.conclude(ctx, c, v, d)
	}
	if v.answers.Receipt != "" {
		return e.handOver(ctx, v, d)
	}
	return d, nil
}

// plan matches the inputs of the call, and builds its plan.
func (e *Engine) plan(c *Call, v *evaluation) error {
	if v.now = c.Now; c.Now == 0 && v.rules.Timed() {
		v.now = e.clock.now() // one reading for all inputs
	}
	if v.book = e.exceptions.book.Load(); v.book != nil {
		v.exceptions, v.clock = e.exceptions, &e.clock
	}
	err := v.build(c, e.maxRules)
	if v.tooMany {
		e.tooMany()
	}
	return err
}

// conclude has the source of a call conclude its decision. If the source refuses what the store
// has counted, the rules give it back: they count allowed calls alone.
func (e *Engine) conclude(ctx context.Context, c *Call, v *evaluation, d *Decision) {
	counted := d.Allowed() && (c.Op == Take || c.Op == CompleteTake)
	c.Source.Conclude(d)
	if !counted || d.Allowed() {
		return
	}
	if v.answers.Undo != nil { // of a wait; handOver gives back a take with a receipt
		if v.answers.Receipt == "" {
			e.giveBack(ctx, v)
		}
		return
	}
	back := store.Plan{Op: store.Refund, Now: v.plan.Now, Zone: v.plan.Zone}
	for i := range v.plan.Sets {
		if v.inputs[i].sourced || v.plan.Sets[i].Refund {
			continue
		}
		if counted := v.counted(i); len(counted) > 0 {
			back.Sets = append(back.Sets, store.Set{Allows: true, Rules: counted})
		}
	}
	if len(back.Sets) > 0 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
		defer cancel()
		var answers store.Answers
		_ = e.store.Evaluate(ctx, &back, &answers) // as in giveBack
	}
}

// counted returns the rules of set i that an allowed take counted: those above its decider
// that admitted or marked it, and those with an overdraft that it reached.
func (v *evaluation) counted(i int) []store.Rule {
	list, a := v.plan.Sets[i].Rules, &v.answers.Sets[i]
	if a.Decider >= 0 {
		list = list[:a.Decider+1]
	}
	var counted []store.Rule
	for j := range list {
		if list[j].Overdraft || j != a.Decider && (list[j].Marked || !slices.Contains(a.Refusals, j)) {
			counted = append(counted, list[j])
		}
	}
	return counted
}

// handOver gives the decision its receipt. If the caller left, or the call is refused after
// all, nobody would settle the receipt: handOver gives back the hits that the call took.
func (e *Engine) handOver(ctx context.Context, v *evaluation, d *Decision) (*Decision, error) {
	if err := ctx.Err(); err != nil {
		e.giveBack(ctx, v)
		return nil, err
	}
	if !d.Allowed() {
		e.giveBack(ctx, v)
		return d, nil
	}
	d.Receipt, d.engine = v.answers.Receipt, e
	return d, nil
}

// cancelTimeout is the time for giving back the hits of a call that leaves before its turn.
const cancelTimeout = time.Second

// giveBack gives back what the call took. Nothing is done about an error: the hits stay
// until their windows end.
func (e *Engine) giveBack(ctx context.Context, v *evaluation) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer cancel()
	_ = e.store.Cancel(ctx, &v.plan, &v.answers)
}
