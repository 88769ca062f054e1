package machine

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"testing"
	_ "time/tzdata" // so that dialogues do not depend on the zones of the machine

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/koalagate/koalagate/internal/store"
)

// Dialogues sets the number of dialogues that rapid makes in the rest of the
// test. An explicit -rapid.checks overrides it.
func Dialogues(t *testing.T, n int) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	if checks.Value.String() != checks.DefValue {
		return
	}
	if err := flag.Set(checks.Name, strconv.Itoa(n)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Set(checks.Name, checks.DefValue) }) // the default is valid
}

// Compare evaluates random dialogues on stores and on the model. open returns a store for
// one dialogue and a function that ends it. Few subjects, rules and instants make
// plans meet often; thresholds change as reloads change them.
func Compare(t *testing.T, open func() (s store.Store, end func())) {
	t.Helper()
	zones := Zones(t, "Asia/Shanghai", "America/New_York", "America/Havana", "Australia/Lord_Howe", "UTC")
	rapid.Check(t, func(rt *rapid.T) {
		model := NewModel()
		s, end := open()
		defer end()
		zone := rapid.SampledFrom(zones).Draw(rt, "zone")
		// A night in which clocks go back, or forward, in one of the zones.
		now := rapid.SampledFrom([]int64{1_793_505_600_000, 1_772_953_200_000, 1_774_681_200_000}).Draw(rt, "night")
		now += rapid.Int64Range(-90_000_000, 90_000_000).Draw(rt, "begin")
		var got store.Answers
		var past []*store.Plan
		for i := range rapid.IntRange(1, 24).Draw(rt, "steps") {
			now += Move.Draw(rt, "move")
			p := Plan(rt, now, zone)
			switch again := rapid.SampledFrom([]int{0, 0, 1, 1, 1, 1, 2, 5, -1}).Draw(rt, "again"); { // callers repeat calls
			case again > 0 && again <= len(past):
				before := past[len(past)-again]
				p = &store.Plan{Op: before.Op, Now: now, Zone: zone, Sets: before.Sets}
			case again < 0 && len(past) > 0: // … or make similar ones
				p = elsewhere(rt, past[len(past)-1], now)
				past = append(past, p)
			default:
				past = append(past, p)
			}
			evaluate := func() {
				if err := s.Evaluate(context.Background(), p, &got); err != nil {
					rt.Fatalf("step %d: %s: %v", i, Describe(p), err)
				}
				want := model.Evaluate(p)
				if !Alike(want, got.Sets) {
					rt.Fatalf("step %d: %s: the store differs from the model (-model +store):\n%s", i, Describe(p), cmp.Diff(want, Normalize(&got).Sets))
				}
			}
			evaluate()
			if p.Op == store.Take && got.Sets[0].Decider >= 0 {
				evaluate() // the store may refuse this one from memory
			}
		}
	})
}

// Alike reports whether answers are equal. cmp.Diff is slow, and only for
// messages.
func Alike(want, got []store.Answer) bool {
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		w, g := want[i], got[i]
		if fmt.Sprint(w.Refusals) != fmt.Sprint(g.Refusals) {
			return false
		}
		w.Refusals, g.Refusals = nil, nil
		if fmt.Sprint(w) != fmt.Sprint(g) {
			return false
		}
	}
	return true
}

// Normalize replaces empty lists of refusals by nil and returns a.
func Normalize(a *store.Answers) *store.Answers {
	for i := range a.Sets {
		if len(a.Sets[i].Refusals) == 0 {
			a.Sets[i].Refusals = nil
		}
	}
	return a
}
