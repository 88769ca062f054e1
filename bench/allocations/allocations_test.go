//go:build !race

package allocations

import (
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/bench/record"
	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/wiring"
)

var update = flag.Bool("update", false, "write the measured numbers to testdata")

const committed = "testdata/allocations.txt"

// testCase is a decision to measure.
type testCase struct {
	name    string
	names   []string
	allowed bool
	receipt bool // the take has a receipt
}

// cases are the decisions to measure, with one or four descriptors or parameters.
var cases = []testCase{
	{"one rule", []string{"uid"}, true, false},
	{"four rules", []string{"uid", "org", "app", "key"}, true, false},
	{"refused", []string{"few"}, false, false},
	{"a receipt", []string{"tokens"}, true, true},
	{"a hold", []string{"streams"}, true, true},
}

// several are limits of one identity, with a rule of each form that is measured under load.
// They are measured at one door: what a door adds does not depend on them.
var several = []testCase{
	{"two limits of one identity", []string{"two"}, true, false},
	{"four limits of one identity", []string{"user"}, true, false},
	{"token and day", []string{"token-day"}, true, false},
	{"base and count", []string{"base-count"}, true, false},
	{"leak and day", []string{"leak-day"}, true, false},
	{"two limits of one identity, refused", []string{"two-full"}, false, false},
	{"four limits of one identity, refused", []string{"user-full"}, false, false},
	{"token and day, refused", []string{"token-day-full"}, false, false},
	{"base and count, refused", []string{"base-count-full"}, false, false},
	{"leak and day, refused", []string{"leak-day-full"}, false, false},
	{"four rules, the last one refused", []string{"a", "b", "c", "attack"}, false, false},
}

// runs is the number of decisions to average, so large that refilling the pools after
// a garbage collection has no effect.
const runs = 1000

// bounds contains the maximum for an admitted call of one rule, by store. It also
// applies to numbers written with -update.
var bounds = map[string]float64{"in process": 5, "Redis": 15}

// withoutMemory disables refusals from memory, so that Redis refuses.
func withoutMemory(o *redis.Options) { o.Refusals = -1 }

// TestAllocationsPerDecision fails if the allocations of a decision differ from the
// recorded number by more than a tenth, in either direction: improvements must be
// recorded too.
func TestAllocationsPerDecision(t *testing.T) {
	want, err := record.Read(committed)
	if err != nil && !*update {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, s := range []struct {
		name  string
		cases []testCase
		open  func(t *testing.T) store.Store
	}{
		{"in process", cases, inProcess},
		{"Redis", cases, storetest.Redis(t)},
		{"Redis that is asked", cases[2:3], storetest.Redis(t, withoutMemory)},
	} {
		for i, d := range decisions {
			list := s.cases
			if i == 0 && len(list) == len(cases) {
				list = slices.Concat(list, several)
			}
			for _, c := range list {
				if c.receipt && d.settles {
					continue
				}
				name := fmt.Sprintf("%s, %s, %s", s.name, d.name, c.name)
				got := measure(t, name, d.call(t, engine.New(parse(t), wiring.CountIn(s.open(t))), c.names...), c.allowed)
				fmt.Fprintf(&text, "%s: %.0f\n", name, got)
				compare(t, name, got, want)
				if bound := bounds[s.name]; c.name == cases[0].name && got > bound {
					t.Errorf("%s: %.0f allocations; want at most %.0f, whatever is recorded", name, got, bound)
				}
			}
		}
	}
	for _, s := range []struct {
		name string
		open func(t *testing.T) store.Store
	}{{"in process", inProcess}, {"Redis", storetest.Redis(t)}} {
		name := s.name + ", rlqs, a report of one bucket"
		got := measureReport(t, s.open(t))
		fmt.Fprintf(&text, "%s: %.0f\n", name, got)
		compare(t, name, got, want)
	}
	compareAdded(t, &text, want)
	const batched = "Redis, store, a call of 64 at once"
	got := math.Round(measureConcurrent(t))
	fmt.Fprintf(&text, "%s: %.0f\n", batched, got)
	compare(t, batched, got, want)
	if *update {
		if err := os.WriteFile(committed, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// inProcess opens the in-process store.
func inProcess(t *testing.T) store.Store {
	t.Helper()
	m := memory.New(memory.Options{})
	t.Cleanup(m.Close)
	return m
}

// compare checks a number against the recorded one.
func compare(t *testing.T, name string, got float64, want map[string]string) {
	t.Helper()
	committed, err := strconv.ParseFloat(want[name], 64)
	switch {
	case *update:
	case err != nil:
		t.Errorf("%s: %.0f allocations, without a recorded number (%v); run with -update", name, got, err)
	case math.Abs(got-committed) > committed/10:
		t.Errorf("%s: %.0f allocations; want %.0f as recorded; fix it, or run with -update and explain it in the commit", name, got, committed)
	}
}

func measure(t *testing.T, name string, call func() bool, allowed bool) float64 {
	t.Helper()
	call() // the second call of a limit of one is refused
	if got := call(); got != allowed {
		t.Fatalf("%s: allowed: %v; want %v", name, got, allowed)
	}
	return testing.AllocsPerRun(runs, func() { call() })
}
