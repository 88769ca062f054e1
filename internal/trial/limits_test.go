package trial_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/trial"
	"github.com/koalagate/koalagate/internal/whatif"
	"github.com/koalagate/koalagate/rules"
)

// limit is a source of one limit for all of its inputs.
type limit struct{ rule *rules.Rule }

func newLimit(count int64) limit {
	return limit{&rules.Rule{
		Name: "d.k", Method: rules.Count, Unit: rules.Seconds, Overdraft: true, Limits: rules.Limits{Time: 3600, Count: count},
		Result: &rules.Result{Number: -1, RetType: 2, ErrNo: 429, HTTPStatus: 429},
	}}
}

func (l limit) Match(_ int, m *rules.Matches) {
	m.List = append(m.List[:0], rules.Match{Rule: l.rule, Identity: []byte("\xf3k"), Limits: l.rule.Limits, Cost: 1})
}

func (l limit) Conclude(*engine.Decision) {}

// limited makes a call that meets a limit and rules.
func (s *stage) limited(l limit) {
	s.t.Helper()
	params := rules.MakeParams(map[string]string{"act": "post", "uid": "ann"})
	c := &engine.Call{Op: engine.Take, Door: "ratelimit", Rules: s.inForce, Source: l, Inputs: []engine.Input{{Params: params, Sourced: true}, {Params: params}}}
	if _, err := s.engine.Decide(s.t.Context(), c); err != nil {
		s.t.Fatal(err)
	}
}

const threeEach = "rule : [count] [act=post; uid=+] [time=3600; count=3] [result=2; return=201]\n"

// The rules in force have not counted a call that a limit refused: a trial of rules gives nothing
// of it back when its counters begin as copies.
func TestCopiesKeepWhatALimitRefused(t *testing.T) {
	s := newStage(t, threeEach)
	for range 2 {
		s.call(engine.Take, "act", "post", "uid", "ann")
	}
	running := s.try(threeEach, nil)
	s.limited(newLimit(0))
	await(t, running, 1)
	s.call(engine.Take, "act", "post", "uid", "ann")
	if got := await(t, running, 2); got.NewlyRefused != 1 {
		t.Errorf("%+v; want the third hit on trial to be one by the refused call, and the fourth newly refused", got.Totals)
	}
}

// Limits on trial decide what limits in force decided, and leave the rules aside.
func TestLimitsAloneOnTrial(t *testing.T) {
	s := newStage(t, "rule : [direct] [act=post] [] [result=2; return=201]\n")
	running := s.try(threeEach, func(o *trial.Options) {
		o.LimitsOnly = true
		o.Source = func(c *engine.Call) (engine.Source, engine.Source) {
			if c.Source == nil {
				return nil, nil
			}
			return c.Source, newLimit(1)
		}
	})
	s.call(engine.Take, "act", "post") // meets no limit
	var got whatif.Totals
	for i := range 3 {
		s.limited(newLimit(2))
		got = await(t, running, int64(i+1)).Totals
	}
	if !cmp.Equal(got, whatif.Totals{Requests: 3, RefusedInForce: 1, RefusedOnTrial: 2, Differences: whatif.Differences{NewlyRefused: 1}}) {
		t.Errorf("%+v", got)
	}
}
