package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

// blackList denies the requests of ann without a counter.
const blackList = `rule : [direct] [uid=ann] [] [result=2; return=1]`

func TestZeroDecisionDoesNotAllow(t *testing.T) {
	for name, d := range map[string]*engine.Decision{
		"nil":                     nil,
		"zero":                    {},
		"zero answers":            {Answers: make([]engine.Answer, 2)},
		"an unknown verdict":      {Verdict: 99, Answers: []engine.Answer{{Verdict: 99}}},
		"a refuser out of range":  {Verdict: rules.Deny, Refuser: 7},
		"a negative refuser":      {Verdict: rules.Deny, Refuser: -1, Answers: make([]engine.Answer, 1)},
		"an unset denied result":  {Verdict: rules.Deny, Answers: []engine.Answer{{Verdict: rules.Deny, Retry: -1}}},
		"a challenge, no result":  {Verdict: rules.Challenge, Answers: []engine.Answer{{Verdict: rules.Challenge}}},
		"unavailable, no verdict": {Unavailable: true},
	} {
		if d.Allowed() {
			t.Errorf("%s: allowed", name)
		}
		if r := d.Refusal(); r.Status < 400 {
			t.Errorf("%s: refused with status %d", name, r.Status)
		}
		if d == nil {
			continue
		}
		for _, h := range append(d.ClientHeaders(nil, engine.Presentation{}), d.DecisionHeaders(nil)...) {
			if h.Name == engine.HeaderDecision && h.Value != "deny" && h.Value != "challenge" {
				t.Errorf("%s: %s: %s", name, h.Name, h.Value)
			}
		}
		if numbers := d.ShadowRules(); numbers != nil {
			t.Errorf("%s: shadow rules %v", name, numbers)
		}
	}
}

func TestInvalidCallsAreErrorsInEveryMode(t *testing.T) {
	ann := input(1, "uid", "ann")
	refund, both := ann, ann
	refund.Refund, both.NoHits = true, true
	calls := map[string]*engine.Call{
		"nil":                       nil,
		"zero":                      {},
		"no operation":              {Inputs: []engine.Input{ann}},
		"an unknown operation":      {Op: engine.Reset + 1, Inputs: []engine.Input{ann}},
		"no inputs":                 {Op: engine.Take},
		"an input without a source": {Op: engine.Take, Inputs: []engine.Input{{Sourced: true}}},
		"erase outside a refund":    {Op: engine.Take, Erase: 1, Inputs: []engine.Input{ann}},
		"an unknown erase":          {Op: engine.Refund, Erase: 3, Inputs: []engine.Input{ann}},
		"a negative erase":          {Op: engine.Refund, Erase: -1, Inputs: []engine.Input{ann}},
		"a refund input in browse":  {Op: engine.Browse, Inputs: []engine.Input{refund}},
		"a refund input in collect": {Op: engine.CompleteTake, Inputs: []engine.Input{refund}},
		"hits and no hits":          {Op: engine.Take, Inputs: []engine.Input{both}},
		"a peek at no rule":         {Op: engine.Peek, Inputs: []engine.Input{ann}},
		"a reset of no rule":        {Op: engine.Reset, Rule: -1, Inputs: []engine.Input{ann}},
		"a time before the epoch":   {Op: engine.Take, Now: -1, Inputs: []engine.Input{ann}},
		"a time beyond counters":    {Op: engine.Take, Now: 1<<46 + 1, Inputs: []engine.Input{ann}},
	}
	for _, mode := range []engine.Mode{engine.ModeEnforce, engine.ModeObserve, engine.ModeOff} {
		modes := new(engine.Modes)
		modes.Set(map[string]engine.Mode{"": mode})
		e := engine.New(parse(t, withResults(blackList), rules.Options{}), engine.WithModes(modes))
		for name, c := range calls {
			d, err := e.Decide(context.Background(), c)
			if !engine.IsInvalid(err) || d.Allowed() || d != nil {
				t.Errorf("%s in mode %s: %+v, %v; want an InvalidError alone", name, mode, d, err)
			}
		}
	}
}

func TestInvalidContentsAreErrors(t *testing.T) {
	e := engine.New(parse(t, withResults(blackList), rules.Options{}))
	overridden := func(o engine.Override) []engine.Input {
		in := input(1, "uid", "bob")
		in.Override = &o
		return []engine.Input{in}
	}
	parsed := e.Rules()
	byHand := &rules.Set{Rules: parsed.Rules, Results: parsed.Results, Zone: parsed.Zone}
	for name, c := range map[string]*engine.Call{
		"a zero rule set":                {Op: engine.Take, Rules: new(rules.Set), Inputs: []engine.Input{{}}},
		"a rule set made by hand":        {Op: engine.Take, Rules: byHand, Inputs: []engine.Input{{}}},
		"too many hits":                  {Op: engine.Take, Inputs: []engine.Input{{Hits: engine.MaxHits + 1}}},
		"a zero override":                {Op: engine.Take, Inputs: overridden(engine.Override{})},
		"an override without a window":   {Op: engine.Take, Inputs: overridden(engine.Override{Count: 1})},
		"an override of negative counts": {Op: engine.Take, Inputs: overridden(engine.Override{Count: -1, Seconds: 1})},
		"an override beyond a year":      {Op: engine.Take, Inputs: overridden(engine.Override{Count: 1, Seconds: 1 << 40})},
	} {
		if d, err := e.Decide(context.Background(), c); !engine.IsInvalid(err) || d != nil {
			t.Errorf("%s: %+v, %v; want an InvalidError", name, d, err)
		}
	}
}

func TestZeroMatchesHaveNoCounters(t *testing.T) {
	e := engine.New(parse(t, withResults(blackList), rules.Options{}))
	if list, _, err := e.Counters(context.Background(), make([]rules.Match, 1)); !engine.IsInvalid(err) {
		t.Errorf("%+v, %v; want an InvalidError", list, err)
	}
	if _, err := e.ResetCounter(context.Background(), rules.Match{}); !engine.IsInvalid(err) {
		t.Errorf("%v; want an InvalidError", err)
	}
}

func TestZeroInputIsOneHit(t *testing.T) {
	e := newEngine(t, `rule : [count] [uid!=+] [time=60; count=1;] [result=2; return=7]`)
	for i, want := range []bool{true, false} {
		if d := decide(t, e, engine.Take, engine.Input{}); d.Allowed() != want {
			t.Errorf("zero input %d: allowed %v; want %v", i+1, d.Allowed(), want)
		}
	}
	if d := decide(t, e, engine.Take, engine.Input{NoHits: true}); !d.Allowed() || d.Answers[0].Quota.Remaining != 0 {
		t.Errorf("no hits on a full counter: %+v; want it allowed: nothing is counted", d)
	}
}

func TestEngineWithoutRulesRefuses(t *testing.T) {
	call := &engine.Call{Op: engine.Take, Inputs: []engine.Input{{}}}
	swapped := engine.New(parse(t, withResults(blackList), rules.Options{}))
	swapped.Swap(nil)
	parsed := parse(t, withResults(blackList), rules.Options{})
	byHand := &rules.Set{Rules: parsed.Rules, Results: parsed.Results, Zone: parsed.Zone}
	for name, e := range map[string]*engine.Engine{
		"nil rules": engine.New(nil, nil), "nil rules in Swap": swapped,
		"a zero rule set": engine.New(new(rules.Set)), "a rule set made by hand": engine.New(byHand),
	} {
		d, err := e.Decide(context.Background(), call)
		if err != nil || d.Allowed() || !d.Unavailable || !errors.Is(d.Cause, engine.ErrNoRules) || d.Refusal().Status != 503 {
			t.Errorf("%s: %+v, %v; want it unavailable for lack of rules", name, d, err)
		}
		if e.Rules() == nil {
			t.Errorf("%s: Rules is nil", name)
		}
	}
	for name, e := range map[string]*engine.Engine{"nil engine": nil, "zero engine": new(engine.Engine)} {
		if d, err := e.Decide(context.Background(), call); err == nil || d.Allowed() {
			t.Errorf("%s: %+v, %v; want an error", name, d, err)
		}
		if list, _, err := e.Counters(context.Background(), nil); list != nil || err == nil {
			t.Errorf("%s: counters %v, %v; want an error", name, list, err)
		}
		if now := e.Now(); now < 1 {
			t.Errorf("%s: now is %d; want the clock of this process", name, now)
		}
		if e.Rules() == nil {
			t.Errorf("%s: Rules is nil", name)
		}
	}
}

func TestUnknownModesEnforce(t *testing.T) {
	for name, mode := range map[string]engine.Mode{"empty": "", "unknown": "observed", "in capitals": "OFF"} {
		var changed []engine.Mode
		modes := &engine.Modes{Changed: func(_ string, _, to engine.Mode) { changed = append(changed, to) }}
		modes.Set(map[string]engine.Mode{"": mode})
		e := engine.New(parse(t, withResults(blackList), rules.Options{}), engine.WithModes(modes))
		if d := decide(t, e, engine.Take, input(1, "uid", "ann")); d.Allowed() || modes.Of("") != engine.ModeEnforce || changed != nil {
			t.Errorf("%s: allowed %v, mode %q, changes %q; want it enforced", name, d.Allowed(), modes.Of(""), changed)
		}
	}
	e := engine.New(parse(t, withResults(blackList), rules.Options{}), engine.WithModes(nil), engine.WithPolicies(nil), engine.Observe(nil))
	if decide(t, e, engine.Take, input(1, "uid", "ann")).Allowed() {
		t.Error("nil modes allow")
	}
	if (*engine.Modes)(nil).Of("") != engine.ModeEnforce {
		t.Error("nil Modes do not enforce")
	}
}

// An unknown policy refuses while Redis is unavailable, as FailDeny does.
func TestUnknownPoliciesDeny(t *testing.T) {
	set := parse(t, withResults(`rule : [count] [uid=+] [time=60; count=9;] [result=2; return=7]`), rules.Options{})
	for _, policy := range []rules.FailPolicy{rules.FailDeny, rules.FailDeny + 1, 99} {
		e := engine.New(set, wiring.CountIn(storetest.Degraded{Store: memory.New(memory.Options{})}), engine.WithPolicies(engine.Policies{"": policy}))
		if d := decide(t, e, engine.Take, input(1, "uid", "bob")); d.Allowed() || d.Refusal().Status != 503 {
			t.Errorf("policy %d: %+v; want a 503", policy, d)
		}
	}
}

func TestStoreErrorsDoNotAllow(t *testing.T) {
	set := parse(t, withResults(`rule : [count] [uid=+] [time=60; count=9;] [result=2; return=7]`), rules.Options{})
	e := engine.New(set, wiring.CountIn(storetest.Failing{Err: errors.New("gone")}))
	for _, op := range []engine.Op{engine.Take, engine.Browse, engine.Update, engine.Refund, engine.Complete, engine.CompleteTake, engine.Peek, engine.Reset} {
		d, err := e.Decide(context.Background(), &engine.Call{Op: op, Rule: 7, Inputs: []engine.Input{input(1, "uid", "bob")}})
		if err != nil || d.Allowed() || !d.Unavailable {
			t.Errorf("%v: %+v, %v; want it unavailable", op, d, err)
		}
	}
}

func TestMaxHitsIsAWeight(t *testing.T) {
	if engine.MaxHits > store.MaxWeight {
		t.Errorf("MaxHits is %d; the store counts up to %d", engine.MaxHits, int64(store.MaxWeight))
	}
}

func TestOpString(t *testing.T) {
	for op, want := range map[engine.Op]string{0: "op(0)", engine.Take: "take", engine.Reset: "reset", engine.Reset + 1: "op(9)", 255: "op(255)"} {
		if got := op.String(); got != want {
			t.Errorf("operation %d: %s; want %s", uint8(op), got, want)
		}
	}
}

// A call that is Unobserved is not observed, even if it is invalid, unless it charges.
func TestUnobservedInvalidCalls(t *testing.T) {
	observed := 0
	e := engine.New(parse(t, withResults(blackList), rules.Options{}), engine.Observe(func(*engine.Call, *engine.Decision, error) { observed++ }))
	for _, c := range []engine.Call{{Unobserved: true}, {}, {Unobserved: true, Charges: true}} {
		c.Op = engine.Take
		if d, err := e.Decide(context.Background(), &c); !engine.IsInvalid(err) || d != nil {
			t.Errorf("no inputs: %+v, %v; want an InvalidError", d, err)
		}
	}
	if observed != 2 {
		t.Errorf("%d calls are observed; want 1", observed)
	}
}

func TestInvalidSettlementsAreErrors(t *testing.T) {
	e := engine.New(parse(t, withResults(blackList), rules.Options{}))
	for name, s := range map[string]*engine.Settlement{
		"nil": nil, "hits without HasHits": {Receipt: "r", Hits: 1}, "too many hits": {Receipt: "r", Hits: engine.MaxHits + 1, HasHits: true},
	} {
		if got, err := e.Settle(context.Background(), s); !engine.IsInvalid(err) || got.Known {
			t.Errorf("%s: %+v, %v; want an InvalidError", name, got, err)
		}
	}
}
