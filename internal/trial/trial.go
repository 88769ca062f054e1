// Package trial decides live calls by rules on trial, after the rules in force have
// decided them, and reports how the decisions differ.
//
// Observe copies a call into a bounded queue, which drops and counts calls when it is
// full, so that no caller waits for the trial. Workers derive the parameters, if the rules on
// trial have others, and decide the calls with counters of the trial's own, which begin as
// copies of the counters in force (seed.go). Settlements of the calls follow them (receipts.go). Nothing that a trial decides reaches anybody; the
// differences by rule and identity are counted by package whatif, for a Report (report.go).
package trial

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/whatif"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

// DefaultQueue is the default number of calls that wait for a trial.
const DefaultQueue = 4096

// Options configure a Trial. Set and Counters are required.
type Options struct {
	// Set are the rules on trial.
	Set *rules.Set
	// Source makes two sources of a call that met limits of another configuration: one with
	// the limits in force, and one with those on trial. Both are used after the call. They
	// are nil for other calls. A nil Source tries no such limits.
	Source func(c *engine.Call) (inForce, onTrial engine.Source)
	// LimitsOnly leaves the inputs out that rules decide: only limits are on trial.
	LimitsOnly bool
	// RulesBeside says that rules in force decide beside limits. The charges of a call are then calls of
	// their own for the rules, and the rules on trial leave those for limits aside.
	RulesBeside bool
	// Counters belong to the trial alone. The Trial does not close them.
	Counters store.Store
	// Copy copies the counters of rules from those in force, unless the trial has them
	// already, and returns for each rule when it was copied, also by another instance;
	// zero for never or long ago. Nil begins with empty counters.
	Copy func(ctx context.Context, rules []*store.Rule) ([]time.Time, error)
	// Links keep the receipts of the trial for all instances; nil keeps them in this
	// process alone.
	Links Links
	// Derive returns a function that derives the parameters of an input of a call by the rules on
	// trial, nil if the rules in force derive the same ones. Derive is called during the call, and
	// the function after it, by one goroutine at a time, so that the verification of tokens takes
	// one processor. The call is left out if known is false. A nil Derive uses the parameters that
	// the rules in force derive.
	Derive func(c *engine.Call, input int) (derive func(p *rules.Params) error, known bool)
	// Mask returns the value of a parameter as reports show it; nil shows all values.
	Mask func(door, name, value string) string
	// MaxRules and Exceptions are as in the engine in force.
	MaxRules   int
	Exceptions *engine.Exceptions
	// Workers is the number of calls that the trial decides at a time; 0 means 1, which
	// keeps their order.
	Workers int
	// Queue is the number of calls that wait for the trial; 0 means DefaultQueue.
	Queue int
}

// Trial decides calls by rules on trial. Close it after use.
type Trial struct {
	o        Options
	engine   *engine.Engine
	queue    chan job
	receipts receipts
	ctx      context.Context
	cancel   context.CancelFunc
	ended    sync.WaitGroup
	dropped  atomic.Int64
	deriving sync.Mutex

	mu    sync.Mutex
	tally whatif.Tally
}

// job is a call or a settlement that waits for the trial.
type job interface{ run(t *Trial) }

// sample is a copy of a call with the decision of the rules in force.
type sample struct {
	at       time.Time
	call     engine.Call
	inForce  *rules.Set                    // nil if the door did not name it
	derives  []func(p *rules.Params) error // of the inputs; nil ones keep their parameters
	limits   engine.Source                 // in force; nil for a call that limits on trial do not concern
	outcomes []whatif.Outcome              // of the inputs, by the rules in force
	refused  bool                          // in force, also for an input that the trial leaves out
	receipt  string                        // of the rules in force
}

// Start returns a Trial that decides the calls that Observe receives.
func Start(o Options) *Trial {
	if o.Mask == nil {
		o.Mask = func(_, _, value string) string { return value }
	}
	if o.Queue <= 0 {
		o.Queue = DefaultQueue
	}
	t := &Trial{o: o, queue: make(chan job, o.Queue)}
	t.engine = engine.New(o.Set, wiring.CountIn(&seeded{Store: o.Counters, copy: o.Copy}),
		engine.WithMaxRules(o.MaxRules, nil), engine.WithExceptions(o.Exceptions))
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.receipts.links, t.receipts.span = o.Links, o.Set.ReceiptTime()
	for range max(o.Workers, 1) {
		t.ended.Go(t.work)
	}
	return t
}

// Close ends the trial and waits for its workers. Calls in the queue are left out.
func (t *Trial) Close() {
	t.cancel()
	t.ended.Wait()
}

// Observe takes a call that the rules in force have decided. It never waits. Calls that
// rescue, a door that is off or no store answered are left out.
func (t *Trial) Observe(c *engine.Call, d *engine.Decision, err error) {
	if err != nil || d == nil || d.Unavailable || d.Degraded || c.Op == engine.Peek || len(d.Answers) != len(c.Inputs) {
		return
	}
	if len(t.queue) == cap(t.queue) { // before the copy
		t.dropped.Add(1)
		return
	}
	refused := false
	for i := range d.Answers {
		a := &d.Answers[i]
		if a.Mode == engine.ModeOff {
			return
		}
		refused = refused || whatif.Of(a, i).Refused
	}
	s := &sample{at: time.Now(), inForce: c.Rules, refused: refused, receipt: strings.Clone(d.Receipt)}
	s.call = engine.Call{
		Op: c.Op, Charges: c.Charges, Door: c.Door, Rule: c.Rule, Erase: c.Erase, RefuseExcess: c.RefuseExcess, Patience: c.Patience, CallerWaits: true,
	}
	if t.o.Source != nil && c.Source != nil {
		s.limits, s.call.Source = t.o.Source(c)
	}
	if !s.choose(c, d.Answers, &t.o) || len(s.call.Inputs) == 0 {
		return
	}
	t.receipts.expect(s.receipt)
	if !t.enqueue(s) {
		t.receipts.forget(s.receipt)
	}
}

// enqueue adds a job to the queue, or drops and counts it.
func (t *Trial) enqueue(j job) bool {
	select {
	case t.queue <- j:
		return true
	default:
		t.dropped.Add(1)
		return false
	}
}

// choose copies the inputs that the trial decides, with the outcomes in force, and reports whether
// their parameters are known. A door has the inputs of limits first, and behind them those of the
// rules. Limits on trial decide the former. Rules on trial decide the latter or, if a call met
// limits alone, the descriptors of these.
func (s *sample) choose(c *engine.Call, answers []engine.Answer, o *Options) (known bool) {
	all, sourced := len(c.Inputs), 0
	for sourced < all && c.Inputs[sourced].Sourced {
		sourced++
	}
	s.call.Inputs, s.outcomes = make([]engine.Input, 0, all), make([]whatif.Outcome, 0, all)
	if s.limits != nil {
		s.add(c.Inputs[:sourced], answers, true)
	}
	switch {
	case o.LimitsOnly, o.RulesBeside && c.Charges:
		return true
	case sourced == all:
		sourced = 0
		if s.limits != nil {
			answers = nil // no rule in force refuses them
		}
	}
	first := len(s.call.Inputs)
	s.add(c.Inputs[sourced:], answers[sourced:], false)
	if o.Derive == nil {
		return true
	}
	s.derives = make([]func(*rules.Params) error, len(s.call.Inputs))
	for i := range s.derives[first:] {
		if s.derives[first+i], known = o.Derive(c, sourced+i); !known {
			return false
		}
	}
	return true
}

// add adds copies of inputs, whose strings may be valid only during the call. Without answers no
// rule in force refuses them.
func (s *sample) add(inputs []engine.Input, answers []engine.Answer, sourced bool) {
	for i := range inputs {
		in := inputs[i]
		in.Params, in.Sourced = in.Params.Clone(), sourced
		if in.Override != nil {
			own := *in.Override
			own.Entries = slices.Clone(own.Entries)
			for j, text := range own.Entries {
				own.Entries[j] = strings.Clone(text)
			}
			in.Override = &own
		}
		var o whatif.Outcome
		if len(answers) > 0 {
			o = whatif.Of(&answers[i], len(s.call.Inputs))
		}
		s.call.Inputs, s.outcomes = append(s.call.Inputs, in), append(s.outcomes, o)
	}
}

func (t *Trial) work() {
	for {
		select {
		case <-t.ctx.Done():
			return
		case j := <-t.queue:
			j.run(t)
		}
	}
}

// derive replaces the parameters by those that the rules on trial derive.
func (s *sample) derive(t *Trial) error {
	if s.derives == nil {
		return nil
	}
	t.deriving.Lock()
	defer t.deriving.Unlock()
	for i, derive := range s.derives {
		if derive == nil {
			continue
		}
		p := new(rules.Params)
		if err := derive(p); err != nil {
			return err
		}
		s.call.Inputs[i].Params = p
	}
	return nil
}

// run decides the call by the rules on trial and counts the difference.
func (s *sample) run(t *Trial) {
	if err := s.derive(t); err != nil {
		t.receipts.forget(s.receipt)
		t.dropped.Add(1)
		return
	}
	d, err := t.engine.Decide(context.WithValue(t.ctx, triedKey{}, &tried{trial: t, sample: s}), &s.call)
	if err != nil || d.Unavailable {
		t.receipts.forget(s.receipt)
		if t.ctx.Err() == nil {
			t.dropped.Add(1)
		}
		return
	}
	t.receipts.link(t, s.receipt, d.Receipt)
	if !s.call.Op.Decides() || s.call.Charges {
		return
	}
	before, now := whatif.First(s.outcomes), whatif.Call(d)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tally.Add(before, now, func(of whatif.Outcome) string { return t.identity(s, of) })
}

// identity returns the identity of a refusal, as reports show it.
func (t *Trial) identity(s *sample, of whatif.Outcome) string {
	if of.Rule == nil {
		return ""
	}
	in := &s.call.Inputs[of.Input]
	if in.Params == nil {
		return ""
	}
	var text strings.Builder
	add := func(name, value string) {
		if text.Len() > 0 {
			text.WriteByte(' ')
		}
		text.WriteString(name + "=" + t.o.Mask(s.call.Door, name, value))
	}
	if in.Sourced { // a limit counts by all entries
		for _, p := range in.Params.List() {
			add(p.Name, p.Value)
		}
		return whatif.Printable(text.String())
	}
	for _, name := range of.Rule.CountsBy() {
		value, _ := in.Params.Get(name)
		add(name, value)
	}
	return whatif.Printable(text.String())
}
