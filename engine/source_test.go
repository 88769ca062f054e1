package engine_test

import (
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/rules"
)

// limitsOf is a source with the same limits for each input, which concludes by a function.
type limitsOf struct {
	limits   []rules.Match
	conclude func(*engine.Decision)
}

func (s *limitsOf) Match(_ int, m *rules.Matches) { m.List = append(m.List[:0], s.limits...) }

func (s *limitsOf) Conclude(d *engine.Decision) {
	if s.conclude != nil {
		s.conclude(d)
	}
}

// sourced returns a limit of two hits that denies.
func sourced(identity string, overdraft bool) rules.Match {
	r := &rules.Rule{
		Name: "limit of " + identity, Method: rules.Count, Limits: rules.Limits{Time: 60, Count: 2}, Overdraft: overdraft,
		Result: &rules.Result{Number: -1, RetType: 2, ErrNo: 429, StrReason: "Deny", HTTPStatus: 429},
	}
	return rules.Match{Rule: r, Identity: []byte(identity), Limits: r.Limits, Cost: 1}
}

func TestSourcedInputs(t *testing.T) {
	denied := func(d *engine.Decision) { d.Verdict, d.Refuser = rules.Deny, 0 }
	for _, c := range []struct {
		name     string
		source   limitsOf
		mode     engine.Mode
		verdicts []rules.Verdict // of three calls
		hits     int64           // of the last answer
	}{
		{"no limit", limitsOf{}, "", []rules.Verdict{rules.Allow, rules.Allow, rules.Allow}, 0},
		{"a limit", limitsOf{limits: []rules.Match{sourced("a", false)}}, "", []rules.Verdict{rules.Allow, rules.Allow, rules.Deny}, 0},
		{"a limit with an overdraft", limitsOf{limits: []rules.Match{sourced("a", true)}}, "", []rules.Verdict{rules.Allow, rules.Allow, rules.Deny}, 3},
		{"a conclusion", limitsOf{conclude: denied}, "", []rules.Verdict{rules.Deny, rules.Deny, rules.Deny}, 0},
		{"a conclusion in mode observe", limitsOf{conclude: denied}, engine.ModeObserve, []rules.Verdict{rules.Allow, rules.Allow, rules.Allow}, 0},
		{"mode off", limitsOf{limits: []rules.Match{sourced("a", true)}, conclude: denied}, engine.ModeOff, []rules.Verdict{rules.Allow, rules.Allow, rules.Allow}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			modes := new(engine.Modes)
			modes.Set(map[string]engine.Mode{"test": c.mode})
			e := newEngineWith(t, blackList, engine.WithModes(modes))
			var d *engine.Decision
			for i, want := range c.verdicts {
				// The parameters would meet a rule: sourced inputs do not.
				in := input(1, "uid", "ann")
				in.Sourced = true
				d = callOf(t, e, &engine.Call{Op: engine.Take, Door: "test", Source: &c.source, Inputs: []engine.Input{in}})
				if d.Verdict != want {
					t.Errorf("call %d: %v; want %v", i, d.Verdict, want)
				}
			}
			if d.Answers[0].Hits != c.hits {
				t.Errorf("%d hits; want %d", d.Answers[0].Hits, c.hits)
			}
		})
	}
}

// Limits of a source and rules are one step: what a rule refuses, a limit without an
// overdraft does not count.
func TestSourceAndRulesCountTogether(t *testing.T) {
	e := newEngine(t, `rule : [count] [uid=+] [time=60; count=1] [result=2; return=1]`)
	free, overdrawn := sourced("free", false), sourced("overdrawn", true)
	both := &limitsOf{limits: []rules.Match{free, overdrawn}}
	limits := engine.Input{Sourced: true}
	for i, want := range []struct {
		remaining int64
		verdict   rules.Verdict
	}{{1, rules.Allow}, {0, rules.Deny}} {
		d := callOf(t, e, &engine.Call{Op: engine.Take, Source: both, Inputs: []engine.Input{limits, input(1, "uid", "ann")}})
		if d.Verdict != want.verdict || d.Answers[0].Quota.Remaining != want.remaining {
			t.Errorf("call %d: %v, %d remain; want %+v", i, d.Verdict, d.Answers[0].Quota.Remaining, want)
		}
	}
	alone := &limitsOf{limits: []rules.Match{free}}
	if d := callOf(t, e, &engine.Call{Op: engine.Browse, Source: alone, Inputs: []engine.Input{{Sourced: true, NoHits: true}}}); d.Answers[0].Quota.Remaining != 1 {
		t.Errorf("%d remain of the limit without an overdraft; want 1", d.Answers[0].Quota.Remaining)
	}
}

// What a source refuses although the counters admit it, rules have not counted.
func TestRulesGiveBackWhatTheSourceRefuses(t *testing.T) {
	for name, rule := range map[string]string{
		"a window":      `rule : [count] [uid=+] [time=60; count=9] [result=2; return=1]`,
		"a receipt":     `rule : [count] [uid=+] [time=60; count=9; settle=60] [result=2; return=1]`,
		"an overdraft":  `rule : [count] [uid=+] [time=60; count=9; overdraft=1] [result=2; return=1]`,
		"a shadow rule": "rule : [count] [uid=+] [time=60; count=1; ] [result=2; return=2; shadow=1]\n" + `rule : [count] [uid=+] [time=60; count=9] [result=2; return=1]`,
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, rule)
			refusing := &limitsOf{
				limits:   []rules.Match{sourced("a", true)},
				conclude: func(d *engine.Decision) { d.Verdict, d.Refuser = rules.Deny, 0 },
			}
			d := callOf(t, e, &engine.Call{Op: engine.Take, Source: refusing, Inputs: []engine.Input{{Sourced: true}, input(3, "uid", "ann")}})
			if d.Allowed() || d.Receipt != "" {
				t.Errorf("allowed: %v, receipt %q", d.Allowed(), d.Receipt)
			}
			if left := decide(t, e, engine.Browse, input(0, "uid", "ann")).Answers[0].Quota.Remaining; left != 9 {
				t.Errorf("%d remain of the rule; want 9", left)
			}
		})
	}
}

func callOf(t *testing.T, e *engine.Engine, c *engine.Call) *engine.Decision {
	t.Helper()
	d, err := e.Decide(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
