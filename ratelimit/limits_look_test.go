package ratelimit_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/dropin/imported"
	"github.com/koalagate/koalagate/internal/envoylimits"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/rules"
)

// look looks at a descriptor of one entry.
func (i *importedDoor) look(key string) *imported.Look {
	i.t.Helper()
	look, err := i.limits.Look(i.t.Context(), "d", []mapping.Entry{{Key: key, Value: "x"}})
	if err != nil {
		i.t.Fatal(err)
	}
	return look
}

// state is what a look says about hits.
type state struct {
	Used, Remaining             int64
	Exceeded, Refused, Degraded bool
}

func stateOf(l *imported.Look) state {
	return state{l.Used, l.Remaining, l.Exceeded, l.Refused, l.Degraded}
}

func TestLooksReadCountersAndCountNothing(t *testing.T) {
	for name, change := range map[string]func(*limitOptions, *clock){
		"fixed windows":   nil,
		"opening windows": func(o *limitOptions, _ *clock) { o.Windows = imported.Opening },
		"sliding windows": func(o *limitOptions, _ *clock) { o.Windows = imported.Sliding },
		"free refusals":   func(o *limitOptions, _ *clock) { o.FreeRefusals = true },
	} {
		t.Run(name, func(t *testing.T) {
			i := importLimits(t, change)
			for step, want := range []state{{0, 2, false, false, false}, {1, 1, false, false, false}, {2, 0, true, true, false}} {
				for range 3 {
					if got := stateOf(i.look("two")); got != want {
						t.Fatalf("after %d calls: %+v; want %+v", step, got, want)
					}
				}
				if step < 2 {
					i.want(ok, []uint32{uint32(want.Remaining - 1)}, oneEntry("two"))
				}
			}
			i.want(overLimit, nil, oneEntry("two"))
			if l := i.look("two"); l.Path != "d.two" || l.Limit.Requests != 2 || l.Reset <= 0 {
				t.Errorf("the look is %+v", l)
			}
		})
	}
}

func TestLooksFollowTheDoor(t *testing.T) {
	mode := func(m engine.Mode) func(*limitOptions, *clock) {
		return func(o *limitOptions, _ *clock) { o.Mode = func() engine.Mode { return m } }
	}
	degraded := func(policy rules.FailPolicy) func(*limitOptions, *clock) {
		return func(o *limitOptions, c *clock) {
			o.Store, o.Outage = away(t, c, 0.5), policy
		}
	}
	for name, c := range map[string]struct {
		change func(*limitOptions, *clock)
		want   state
	}{
		"shadow mode":          {func(o *limitOptions, _ *clock) { o.Shadow = true }, state{2, 0, true, false, false}},
		"mode observe":         {mode(engine.ModeObserve), state{2, 0, true, false, false}},
		"Redis away":           {degraded(rules.FailRescue), state{2, 0, true, true, true}},
		"Redis away, allowing": {degraded(rules.FailAllow), state{2, 0, false, false, true}},
		"Redis away, denying":  {degraded(rules.FailDeny), state{2, 0, true, true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			i := importLimits(t, c.change)
			for range 2 {
				if _, err := i.try(oneEntry("two")); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(c.want, stateOf(i.look("two"))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLooksWithoutACounter(t *testing.T) {
	if l := importLimits(t, nil).look("three"); l.Limit != nil || l.Reason != `nothing below "d" matches "three=x" (there are "ten", "two")` {
		t.Errorf("without a limit: %+v", l)
	}
	i := importLimits(t, func(o *limitOptions, _ *clock) { o.Current = func() *envoylimits.Set { return nil } })
	if l := i.look("two"); l.Limit != nil || l.Reason != "no limits are loaded yet, so that every call fails" {
		t.Errorf("without limits: %+v", l)
	}
	i = importLimits(t, func(o *limitOptions, _ *clock) { o.Store = storetest.Failing{Err: errors.New("out of order")} })
	if _, err := i.limits.Look(t.Context(), "d", []mapping.Entry{{Key: "two", Value: "x"}}); err == nil {
		t.Error("a failing store is no error")
	}
}
