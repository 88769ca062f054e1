package trial_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/trial"
	"github.com/koalagate/koalagate/internal/whatif"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const results = `
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
[end]
`

func parse(t *testing.T, lines string) *rules.Set {
	t.Helper()
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte("[rules]\n" + lines + results)}}, rules.Options{AllowEmpty: true})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	return set
}

// stage is an engine whose calls a trial may decide too.
type stage struct {
	t       *testing.T
	inForce *rules.Set
	engine  *engine.Engine
	store   *memory.Store
	own     *memory.Store // of the trial
	trial   atomic.Pointer[trial.Trial]
}

func newStage(t *testing.T, inForce string) *stage {
	t.Helper()
	s := &stage{t: t, inForce: parse(t, inForce), store: memory.New(memory.Options{}), own: memory.New(memory.Options{})}
	s.engine = engine.New(s.inForce, wiring.CountIn(s.store), engine.Observe(func(c *engine.Call, d *engine.Decision, err error) {
		if running := s.trial.Load(); running != nil {
			running.Observe(c, d, err)
		}
	}), engine.ObserveSettlements(func(what *engine.Settlement, _ engine.Settled, _ error) {
		if running := s.trial.Load(); running != nil {
			running.Settle(what)
		}
	}, nil))
	return s
}

// try begins a trial.
func (s *stage) try(lines string, change func(*trial.Options)) *trial.Trial {
	s.t.Helper()
	o := trial.Options{
		Set: parse(s.t, lines), Counters: s.own,
		Copy: func(_ context.Context, list []*store.Rule) ([]time.Time, error) {
			now, at := time.Now(), make([]time.Time, len(list))
			for i, copied := range s.own.Copy(s.store, list) {
				if copied {
					at[i] = now
				}
			}
			return at, nil
		},
	}
	if change != nil {
		change(&o)
	}
	running := trial.Start(o)
	s.t.Cleanup(running.Close)
	s.trial.Store(running)
	return running
}

// call makes a call with parameters as alternating names and values.
func (s *stage) call(op engine.Op, params ...string) *engine.Decision {
	s.t.Helper()
	p := new(rules.Params)
	for i := 0; i < len(params); i += 2 {
		p.Set(params[i], params[i+1])
	}
	d, err := s.engine.Decide(s.t.Context(), &engine.Call{Op: op, Door: "nginx", Rules: s.inForce, Inputs: []engine.Input{{Params: p}}})
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// await waits until the trial has decided or dropped this number of calls.
func await(t *testing.T, running *trial.Trial, n int64) whatif.Found {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		if all := running.Totals(); all.Requests+all.Dropped >= n {
			return running.Found()
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the trial has decided %+v, not %d calls", running.Totals(), n)
		case <-time.After(time.Millisecond):
		}
	}
}

func compare(t *testing.T, got, want whatif.Found) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
}

// Both rule sets count all calls. The differences are those of single requests, and name
// the rule that makes them.
func TestDifferencesByRuleAndIdentity(t *testing.T) {
	s := newStage(t, `rule : [count] [uid=+] [time=3600; count=4] [result=2; return=201; name=users]`)
	running := s.try(`rule : [count] [uid=+] [time=3600; count=2] [result=2; return=201; name=users]
rule : [direct] [ip=192.0.2.1] [] [result=2; return=301]`, nil)
	for i := range int64(9) {
		uid := "ann" // 2 allowed by both, 2 newly refused, 2 refused by both
		if i > 5 {
			uid = "bob"
		}
		s.call(engine.Take, "uid", uid)
		await(t, running, i+1) // a copy that is made later contains later calls, too
	}
	s.call(engine.Take, "uid", "eve", "ip", "192.0.2.1")
	compare(t, await(t, running, 10), whatif.Found{
		Totals: whatif.Totals{Requests: 10, RefusedInForce: 2, RefusedOnTrial: 6, Differences: whatif.Differences{NewlyRefused: 4}},
		Rules: []whatif.Rule{
			{Rule: 201, Name: "users", Differences: whatif.Differences{NewlyRefused: 3}, Identities: []whatif.Identity{
				{Identity: "uid=ann", Differences: whatif.Differences{NewlyRefused: 2}}, {Identity: "uid=bob", Differences: whatif.Differences{NewlyRefused: 1}},
			}},
			{Rule: 301, Differences: whatif.Differences{NewlyRefused: 1}, Identities: []whatif.Identity{
				{Identity: "ip=192.0.2.1", Differences: whatif.Differences{NewlyRefused: 1}},
			}},
		},
	})
}

func TestNewlyAllowedNamesTheRuleInForce(t *testing.T) {
	s := newStage(t, `rule : [count] [uid=+] [time=3600; count=1] [result=2; return=201]`)
	running := s.try(`rule : [count] [uid=+] [time=3600; count=9] [result=2; return=201]`, nil)
	for range 3 {
		s.call(engine.Take, "uid", "ann")
	}
	compare(t, await(t, running, 3), whatif.Found{
		Totals: whatif.Totals{Requests: 3, RefusedInForce: 2, Differences: whatif.Differences{NewlyAllowed: 2}},
		Rules: []whatif.Rule{{Rule: 201, Differences: whatif.Differences{NewlyAllowed: 2}, Identities: []whatif.Identity{
			{Identity: "uid=ann", Differences: whatif.Differences{NewlyAllowed: 2}},
		}}},
	})
}

// Counters of the same number and method begin as those in force, without the call itself.
func TestCountersBeginAsThoseInForce(t *testing.T) {
	for name, c := range map[string]struct {
		inForce, onTrial string
		before           int   // calls before the trial
		refused          int64 // of 4 calls in the trial
	}{
		"count":          {`rule : [count] [uid=+] [time=3600; count=99] [result=2; return=201]`, `rule : [count] [uid=+] [time=3600; count=5] [result=2; return=201]`, 3, 2},
		"leak":           {`rule : [leak] [uid=+] [time=3600; count=99] [result=2; return=201]`, `rule : [leak] [uid=+] [time=3600; count=5] [result=2; return=201]`, 3, 2},
		"token":          {`rule : [token] [uid=+] [time=36000; count=5] [result=2; return=201]`, `rule : [token] [uid=+] [time=36000; count=5] [result=2; return=201]`, 3, 2},
		"base":           {`rule : [base] [uid=+] [time=3600; count=99; base=3] [result=2; return=201]`, `rule : [base] [uid=+] [time=3600; count=2; base=3] [result=2; return=201]`, 3, 3},
		"another method": {`rule : [leak] [uid=+] [time=3600; count=99] [result=2; return=201]`, `rule : [count] [uid=+] [time=3600; count=3] [result=2; return=201]`, 3, 1},
		"another number": {`rule : [count] [uid=+] [time=3600; count=99] [result=2; return=201]`, `rule : [count] [uid=+] [time=3600; count=3] [result=2; return=202]`, 3, 1},
		"an overdraft":   {`rule : [count] [uid=+] [time=3600; count=1; overdraft=1] [result=2; return=201]`, `rule : [count] [uid=+] [time=3600; count=5] [result=2; return=201]`, 3, 2},
		"refused before": {`rule : [count] [uid=+] [time=3600; count=2] [result=2; return=201]`, `rule : [count] [uid=+] [time=3600; count=4] [result=2; return=201]`, 3, 2},
		"passed over":    {"rule : [direct] [uid=ann] [] [result=1; return=100]\nrule : [count] [uid=+] [time=3600; count=2] [result=2; return=201]", `rule : [count] [uid=+] [time=3600; count=3] [result=2; return=201]`, 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, c.inForce)
			for range c.before {
				s.call(engine.Take, "uid", "ann")
			}
			running := s.try(c.onTrial, nil)
			for i := range int64(4) {
				s.call(engine.Take, "uid", "ann")
				await(t, running, i+1) // a copy that is made later contains later calls, too
			}
			if f := running.Found(); f.RefusedOnTrial != c.refused {
				t.Errorf("the trial refused %d of 4, want %d", f.RefusedOnTrial, c.refused)
			}
		})
	}
}

// The other operations of Koala's API reach the trial.
func TestOperations(t *testing.T) {
	const line = `rule : [count] [uid=+] [time=3600; count=%d] [result=2; return=201]`
	s := newStage(t, fmt.Sprintf(line, 99))
	s.call(engine.Update, "uid", "ann")
	running := s.try(fmt.Sprintf(line, 3), nil)
	s.call(engine.Update, "uid", "ann")
	s.call(engine.Browse, "uid", "ann")
	await(t, running, 1)                // the counter is copied
	s.call(engine.Update, "uid", "ann") // 3 of 3
	s.call(engine.Browse, "uid", "ann") // newly refused
	s.call(engine.Refund, "uid", "ann")
	s.call(engine.Browse, "uid", "ann")
	s.call(engine.Take, "uid", "ann")
	s.call(engine.Take, "uid", "ann") // newly refused
	reset, err := s.engine.Decide(t.Context(), &engine.Call{Op: engine.Reset, Rule: 201, Rules: s.inForce, Inputs: []engine.Input{{Params: rules.MakeParams(map[string]string{"uid": "ann"})}}})
	if err != nil || !reset.Allowed() {
		t.Fatal(reset, err)
	}
	s.call(engine.Complete, "uid", "ann")
	f := await(t, running, 6)
	if f.Requests != 6 || f.NewlyRefused != 2 {
		t.Errorf("%d of %d newly refused, want 2 of 6", f.NewlyRefused, f.Requests)
	}
}

// A counter that begins as a copy contains what the call that begins it has given back.
func TestCopiesContainRefunds(t *testing.T) {
	const users, acts = "rule : [count] [uid=+] [time=3600; count=10] [result=2; return=201]\n", "rule : [count] [act=+] [time=3600; count=%d] [result=2; return=202]\n"
	for name, c := range map[string]struct {
		most    int // of the other input, by the rules in force, which has 2 hits
		inForce int64
	}{
		"given back in force": {9, 1}, "refused in force": {1, 1 + 5},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, users+fmt.Sprintf(acts, c.most))
			ann := rules.MakeParams(map[string]string{"uid": "ann"})
			take := func(inputs ...engine.Input) {
				t.Helper()
				if _, err := s.engine.Decide(t.Context(), &engine.Call{Op: engine.Take, Rules: s.inForce, Inputs: inputs}); err != nil {
					t.Fatal(err)
				}
			}
			take(engine.Input{Params: ann, Hits: 10})
			running := s.try(users+fmt.Sprintf(acts, 9), nil)
			take(engine.Input{Params: ann, Hits: 4, Refund: true}, engine.Input{Params: rules.MakeParams(map[string]string{"act": "post"}), Hits: 2})
			await(t, running, 1)
			for range 5 {
				take(engine.Input{Params: ann, Hits: 1})
			}
			if f := await(t, running, 6); f.RefusedInForce != c.inForce || f.RefusedOnTrial != 1 {
				t.Errorf("%+v; want %d refusals in force, and on trial 1 of 5 hits beside 6 of 10", f.Totals, c.inForce)
			}
		})
	}
}

// A settlement frees what both rule sets hold, also if it arrives before the trial has
// decided the call.
func TestSettlementsReachTheTrial(t *testing.T) {
	const line = `rule : [hold] [uid=+] [time=3600; count=%d] [result=2; return=201]`
	s := newStage(t, fmt.Sprintf(line, 99))
	running := s.try(fmt.Sprintf(line, 1), nil)
	for i := range 50 {
		d := s.call(engine.Take, "uid", "ann")
		if i%2 == 0 {
			await(t, running, int64(i+1))
		}
		if d.Receipt == "" {
			t.Fatal("no receipt")
		}
		if got, err := s.engine.Settle(t.Context(), &engine.Settlement{Receipt: d.Receipt}); err != nil || !got.Known {
			t.Fatal(got, err)
		}
	}
	if f := await(t, running, 50); f.Requests != 50 || f.NewlyRefused != 0 {
		t.Errorf("%d of %d newly refused, want 0 of 50", f.NewlyRefused, f.Requests)
	}
}

// blocked is a store that decides when it is released.
type blocked struct {
	store.Store
	release chan struct{}
}

func (b *blocked) Evaluate(ctx context.Context, p *store.Plan, a *store.Answers) error {
	select {
	case <-b.release:
	case <-ctx.Done():
		return ctx.Err()
	}
	return b.Store.Evaluate(ctx, p, a)
}

// A trial that is slower than the traffic drops calls and counts them. The callers do not
// wait, and their answers are the same.
func TestFullQueueDrops(t *testing.T) {
	const line = `rule : [count] [uid=+] [time=3600; count=%d] [result=2; return=201]`
	s := newStage(t, fmt.Sprintf(line, 50))
	release := make(chan struct{})
	running := s.try(fmt.Sprintf(line, 10), func(o *trial.Options) { o.Queue, o.Counters = 8, &blocked{s.own, release} })
	refused := 0
	for range 100 {
		if !s.call(engine.Take, "uid", "ann").Allowed() {
			refused++
		}
	}
	if refused != 50 {
		t.Errorf("%d of 100 callers were refused, want 50", refused)
	}
	if dropped := running.Totals().Dropped; dropped < 91 {
		t.Errorf("%d calls were dropped, want at least 91", dropped)
	}
	close(release)
	if f := await(t, running, 100); f.Requests+f.Dropped != 100 || f.Requests < 8 {
		t.Errorf("decided %d, dropped %d; want 100 in all, at least 8 decided", f.Requests, f.Dropped)
	}
}

// Calls that no rules in force decided in their counters are left out.
func TestLeftOut(t *testing.T) {
	s := newStage(t, `rule : [count] [uid=+] [time=3600; count=1] [result=2; return=201]`)
	running := s.try(`rule : [count] [uid=+] [time=3600; count=1] [result=2; return=201]`, nil)
	c := &engine.Call{Op: engine.Take, Inputs: make([]engine.Input, 1)}
	for name, d := range map[string]*engine.Decision{
		"rescued": {Degraded: true, Answers: make([]engine.Answer, 1)}, "unavailable": {Unavailable: true},
		"the door is off": {Answers: []engine.Answer{{Mode: engine.ModeOff}}}, "nothing": nil,
	} {
		running.Observe(c, d, nil)
		if all := running.Totals(); all.Requests+all.Dropped != 0 {
			t.Errorf("%s: %+v", name, all)
		}
	}
	s.call(engine.Take, "uid", "ann")
	if f := await(t, running, 1); f.Requests != 1 {
		t.Errorf("%d requests, want 1", f.Requests)
	}
}

// Values are masked, and identities are bounded.
func TestMaskAndBound(t *testing.T) {
	s := newStage(t, `rule : [count] [uid=+] [time=3600; count=9] [result=2; return=201]`)
	running := s.try(`rule : [direct] [uid=+] [] [result=2; return=301]`, func(o *trial.Options) {
		o.Mask = func(door, name, value string) string { return door + "/" + name + "/" + value[:1] + "#" }
	})
	for i := range 2500 {
		s.call(engine.Take, "uid", fmt.Sprintf("%c%d", 'a'+i%26, i))
	}
	await(t, running, 2500)
	f := running.Found()
	if len(f.Rules) != 1 || len(f.Rules[0].Identities) != 10 || f.Rules[0].NewlyRefused != 2500 {
		t.Fatalf("found %+v", f)
	}
	if got := f.Rules[0].Identities[0].Identity; got != "uid=nginx/uid/a#" {
		t.Errorf("identity %q", got)
	}
}

// The heaviest of very many identities are found, with a bounded error.
func TestHeaviestIdentities(t *testing.T) {
	s := newStage(t, `rule : [count] [uid=+] [time=3600; count=99999] [result=2; return=201]`)
	running := s.try(`rule : [direct] [uid=+] [] [result=2; return=301]`, nil)
	for i := range 6000 {
		uid := fmt.Sprint("one of many ", i)
		if i%3 == 0 {
			uid = "heavy"
		}
		s.call(engine.Take, "uid", uid)
		if i%1000 == 999 {
			await(t, running, int64(i+1))
		}
	}
	top := running.Found().Rules[0].Identities[0]
	if top.Identity != "uid=heavy" || top.NewlyRefused < 2000 || top.NewlyRefused > 2006 {
		t.Errorf("the heaviest is %+v; want uid=heavy with 2000 … 2006", top)
	}
}

// met is a source without limits.
type met struct{}

func (met) Match(_ int, m *rules.Matches) { m.List = m.List[:0] }
func (met) Conclude(*engine.Decision)     {}

// Rules on trial decide the inputs that met rules, or those that met limits of a source alone.
func TestTrialDecidesEachRequestOnce(t *testing.T) {
	for name, c := range map[string]struct {
		sourced []bool
		denied  int64
	}{"limits alone": {[]bool{true}, 1}, "limits and rules": {[]bool{true, false}, 1}, "rules": {[]bool{false}, 1}} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, `rule : [count] [uid=+] [time=60; count=9] [result=2; return=1]`)
			running := s.try(`rule : [count] [uid=+] [time=60; count=1] [result=2; return=1]`, nil)
			inputs := make([]engine.Input, len(c.sourced))
			for i := range inputs {
				inputs[i] = engine.Input{Params: rules.MakeParams(map[string]string{"uid": "ann"}), Sourced: c.sourced[i]}
			}
			for range 2 {
				if _, err := s.engine.Decide(t.Context(), &engine.Call{Op: engine.Take, Rules: s.inForce, Source: met{}, Inputs: inputs}); err != nil {
					t.Fatal(err)
				}
			}
			found := await(t, running, 2)
			if found.Dropped != 0 || found.RefusedOnTrial != c.denied {
				t.Errorf("%+v; want %d new refusals", found.Totals, c.denied)
			}
		})
	}
}
