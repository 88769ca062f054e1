package engine_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

// The state of a counter has what gateways hold of it, until their shares end.
func TestCountersShowWhatIsLent(t *testing.T) {
	for name, rule := range map[string]string{
		"a bucket": "[token] [tenant=+] [time=1; count=100; burst=200; lease=20%]",
		"a window": "[count] [tenant=+] [time=60; count=6000; lease=20%]",
	} {
		t.Run(name, func(t *testing.T) { showWhatIsLent(t, rule) })
	}
}

func showWhatIsLent(t *testing.T, rule string) {
	set := parse(t, `
[rules]
rule : `+rule+` [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`, rules.Options{Timezone: "UTC"})
	counters := memory.New(memory.Options{})
	defer counters.Close()
	e := engine.New(set, wiring.CountIn(counters))
	params := rules.MakeParams(map[string]string{"tenant": "acme"})
	match, err := set.Rules[0].Identify(params)
	if err != nil {
		t.Fatal(err)
	}
	match.Limits, _ = match.Rule.LimitsFor(params)
	lent := func() engine.Lent {
		list, _, err := e.Counters(t.Context(), []rules.Match{match})
		if err != nil {
			t.Fatal(err)
		}
		return list[0].Lent
	}
	if got := lent(); got != (engine.Lent{}) {
		t.Errorf("%+v is lent before any share", got)
	}
	var last *engine.Assignment
	for _, name := range []string{"edge-1", "edge-2"} {
		c := &engine.Call{Rules: set, Op: engine.Take, Inputs: []engine.Input{{Params: params}}}
		u := &engine.Usage{Holder: name, Reported: true, Denied: 20, Elapsed: time.Second, Lasts: engine.AssignmentTime}
		if last, err = e.Assign(t.Context(), c, u); err != nil || last.Kind != engine.AssignShare {
			t.Fatalf("%+v, %v; want a share", last, err)
		}
	}
	if got := lent(); got.Holders != 2 || got.Rate <= 0 || got.Rate != last.Lent || got.Limit != last.Limit {
		t.Errorf("%+v is lent; want %d of %d hits per 10 s, as the last gateway was told", got, last.Lent, last.Limit)
	}
	if again := lent(); again != lent() {
		t.Error("a look changes what is lent")
	}
}

// Reports are observed in each mode, and if no share could be assigned; rules match them unless
// the door is off.
func TestReportsAreObservedInEveryMode(t *testing.T) {
	working := memory.New(memory.Options{})
	defer working.Close()
	for _, c := range []struct {
		name    string
		mode    engine.Mode
		store   store.Store
		kind    engine.AssignmentKind
		fails   bool
		matches int
	}{
		{"enforced", engine.ModeEnforce, working, engine.AssignShare, false, 1},
		{"observed", engine.ModeObserve, working, engine.AssignAllow, false, 1},
		{"off", engine.ModeOff, working, engine.AssignAllow, false, 0},
		{"failed", engine.ModeEnforce, storetest.Failing{Err: errors.New("connection refused")}, engine.AssignNone, true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			modes, allowed, matched := new(engine.Modes), []uint64{}, 0
			modes.Set(map[string]engine.Mode{"d": c.mode})
			observe := func(_ *engine.Call, set *rules.Set, list []rules.Match, u *engine.Usage, a *engine.Assignment) {
				allowed, matched = append(allowed, u.Allowed), len(list)
				if set == nil || a.Kind != c.kind {
					t.Errorf("by %v it has %v; want %v", set, a.Kind, c.kind)
				}
			}
			e := engine.New(parse(t, withResults("rule : [token] [tenant=+] [time=1; count=100; lease=20%] [result=2; return=201]"), rules.Options{}),
				wiring.CountIn(c.store), engine.WithModes(modes), engine.ObserveReports(observe))
			for _, u := range []engine.Usage{{Reported: true, Allowed: 20}, {}} {
				u.Holder, u.Lasts = "edge-1", engine.AssignmentTime
				_, err := e.Assign(t.Context(), &engine.Call{Door: "d", Op: engine.Take, Inputs: []engine.Input{input(1, "tenant", "acme")}}, &u)
				if (err != nil) != c.fails {
					t.Errorf("the error is %v", err)
				}
			}
			if !slices.Equal(allowed, []uint64{20}) || matched != c.matches {
				t.Errorf("reports of %d hits are observed, with %d matches; want one of 20, with %d", allowed, matched, c.matches)
			}
		})
	}
}
