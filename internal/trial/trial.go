// Package trial decides live calls by rules on trial, after the rules in force have
// decided them, and reports how the decisions differ.
//
// Observe copies a call into a bounded queue, which drops and counts calls when it is
// full, so that no caller waits for the trial. Workers decide the calls with counters of
// the trial's own, which begin as copies of the counters in force (seed.go). Settlements of the
// calls follow them (receipts.go). Nothing that a trial decides reaches anybody; the
// differences by rule and identity are counted in a Report (counts.go, report.go).
package trial

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

// DefaultQueue is the default number of calls that wait for a trial.
const DefaultQueue = 4096

// Options configure a Trial. Set and Counters are required.
type Options struct {
	// Set are the rules on trial.
	Set *rules.Set
	// Counters belong to the trial alone. The Trial does not close them.
	Counters store.Store
	// Copy copies the counters of rules from those in force, unless the trial has them
	// already, and returns for each rule when it was copied, also by another instance;
	// zero for never or long ago. Nil begins with empty counters.
	Copy func(ctx context.Context, rules []*store.Rule) ([]time.Time, error)
	// Links keep the receipts of the trial for all instances; nil keeps them in this
	// process alone.
	Links Links
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

	mu     sync.Mutex
	counts counts
}

// job is a call or a settlement that waits for the trial.
type job interface{ run(t *Trial) }

// sample is a copy of a call with the decision of the rules in force.
type sample struct {
	at       time.Time
	call     engine.Call
	inForce  *rules.Set // nil if the door did not name it
	verdicts []verdict  // of the inputs, by the rules in force
	receipt  string     // of the rules in force
}

// verdict is the part of a decision about an input that a trial compares.
type verdict struct {
	refused bool
	rule    *rules.Rule // that decided; nil if none did
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
	s := &sample{at: time.Now(), inForce: c.Rules, receipt: strings.Clone(d.Receipt)}
	inputs := ruled(c.Inputs)
	for i := range d.Answers {
		a := &d.Answers[i]
		if a.Mode == engine.ModeOff {
			return
		}
		if i < len(c.Inputs)-len(inputs) {
			continue
		}
		s.verdicts = append(s.verdicts, verdict{refused: a.Verdict != rules.Allow || a.Overruled(), rule: a.Decider})
	}
	s.call = engine.Call{
		Op: c.Op, Door: c.Door, Rule: c.Rule, Erase: c.Erase, RefuseExcess: c.RefuseExcess, Patience: c.Patience, CallerWaits: true,
		Inputs: copyInputs(inputs),
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

// ruled returns the inputs that rules on trial decide: those that met rules or, if a call met
// imported limits alone, all of its inputs. A door has the inputs for limits first.
func ruled(inputs []engine.Input) []engine.Input {
	sourced := 0
	for sourced < len(inputs) && inputs[sourced].Sourced {
		sourced++
	}
	if sourced == len(inputs) {
		return inputs
	}
	return inputs[sourced:]
}

// copyInputs returns a copy of inputs, whose strings may be valid only during the call.
func copyInputs(from []engine.Input) []engine.Input {
	inputs := slices.Clone(from)
	for i := range inputs {
		in := &inputs[i]
		in.Params, in.Sourced = in.Params.Clone(), false
		if in.Override != nil {
			own := *in.Override
			own.Entries = slices.Clone(own.Entries)
			for j, text := range own.Entries {
				own.Entries[j] = strings.Clone(text)
			}
			in.Override = &own
		}
	}
	return inputs
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

// run decides the call by the rules on trial and counts the difference.
func (s *sample) run(t *Trial) {
	d, err := t.engine.Decide(context.WithValue(t.ctx, triedKey{}, &tried{trial: t, sample: s}), &s.call)
	if err != nil || d.Unavailable {
		t.receipts.forget(s.receipt)
		if t.ctx.Err() == nil {
			t.dropped.Add(1)
		}
		return
	}
	t.receipts.link(t, s.receipt, d.Receipt)
	if !s.call.Op.Decides() {
		return
	}
	before, now := firstRefusal(s.verdicts), outcomeOf(d)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.add(&before, &now, func(of *outcome) string { return t.identity(s, of) })
}

// outcome is the verdict about a call.
type outcome struct {
	verdict
	input int // that was refused
}

// firstRefusal returns the first refusal among verdicts, or the zero outcome.
func firstRefusal(list []verdict) outcome {
	for i, v := range list {
		if v.refused {
			return outcome{v, i}
		}
	}
	return outcome{}
}

// outcomeOf returns the outcome of a decision.
func outcomeOf(d *engine.Decision) outcome {
	for i := range d.Answers {
		if a := &d.Answers[i]; a.Verdict != rules.Allow {
			return outcome{verdict{true, a.Decider}, i}
		}
	}
	return outcome{}
}

// identity returns the identity of a refusal, as reports show it.
func (t *Trial) identity(s *sample, of *outcome) string {
	if of.rule == nil {
		return ""
	}
	var text strings.Builder
	params := s.call.Inputs[of.input].Params
	if params == nil {
		return ""
	}
	for _, name := range of.rule.CountsBy() {
		value, _ := params.Get(name)
		if text.Len() > 0 {
			text.WriteByte(' ')
		}
		text.WriteString(name + "=" + t.o.Mask(s.call.Door, name, value))
	}
	return printable(text.String())
}

// maxText is the length up to which reports show a text, in bytes.
const maxText = 200

// printable returns a text as terminals may show it, shortened to maxText.
func printable(text string) string {
	end := ""
	if len(text) > maxText {
		text, end = strings.ToValidUTF8(text[:maxText], ""), "…"
	}
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text) + end
}
