//go:build !race

package allocations

import (
	"bufio"
	"flag"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/wiring"
)

var update = flag.Bool("update", false, "write what is measured to testdata")

const committed = "testdata/allocations.txt"

// question is what is decided.
type question struct {
	name    string
	names   []string
	allowed bool
}

// cases are what is decided; one descriptor or parameter set, or four.
var cases = []question{
	{"one rule", []string{"uid"}, true},
	{"four rules", []string{"uid", "org", "app", "key"}, true},
	{"refused", []string{"few"}, false},
}

// runs is over how many decisions is averaged: the pools' refills after a
// collection do not show.
const runs = 2000

// bounds are the most that may ever be committed for an admitted call of one
// rule, by store.
var bounds = map[string]float64{"in process": 5, "Redis": 15}

// asked refuses nothing from memory: what it refuses, Redis does.
func asked(o *store.RedisOptions) { o.Refusals = -1 }

// TestAllocationsADecision fails when a decision allocates more than a tenth
// more, or less, than what is committed: a number that has become better is
// committed too.
func TestAllocationsADecision(t *testing.T) {
	want := read(t)
	var text strings.Builder
	for _, s := range []struct {
		name  string
		cases []question
		open  func(t *testing.T) store.Store
	}{
		{"in process", cases, func(t *testing.T) store.Store {
			m := store.NewMemory(store.MemoryOptions{})
			t.Cleanup(m.Close)
			return m
		}},
		{"Redis", cases, storetest.Redis(t)},
		{"Redis that is asked", cases[2:], storetest.Redis(t, asked)},
	} {
		for _, d := range decisions {
			for _, c := range s.cases {
				name := fmt.Sprintf("%s, %s, %s", s.name, d.name, c.name)
				got := measure(t, name, d.call(t, engine.New(parse(t), wiring.CountIn(s.open(t))), c.names...), c.allowed)
				fmt.Fprintf(&text, "%s: %.0f\n", name, got)
				compare(t, name, got, want)
				if bound := bounds[s.name]; c.name == cases[0].name && got > bound {
					t.Errorf("%s: %.0f allocations; want at most %.0f, whatever is committed", name, got, bound)
				}
			}
		}
	}
	const batched = "Redis, store, a call of 64 at once"
	got := math.Round(measureTogether(t))
	fmt.Fprintf(&text, "%s: %.0f\n", batched, got)
	compare(t, batched, got, want)
	if *update {
		if err := os.WriteFile(committed, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// compare holds a number to what is committed.
func compare(t *testing.T, name string, got float64, want map[string]float64) {
	t.Helper()
	committed, known := want[name]
	switch {
	case *update:
	case !known:
		t.Errorf("%s: %.0f allocations, and nothing to compare them with; run with -update", name, got)
	case math.Abs(got-committed) > committed/10:
		t.Errorf("%s: %.0f allocations; %.0f are committed. Mend it, or run with -update and say why in the commit", name, got, committed)
	}
}

func measure(t *testing.T, name string, call func() bool, allowed bool) float64 {
	t.Helper()
	call() // the second call of a limit of one is refused
	if got := call(); got != allowed {
		t.Fatalf("%s: it was let through: %v; want %v", name, got, allowed)
	}
	return testing.AllocsPerRun(runs, func() { call() })
}

// read reads what is committed.
func read(t *testing.T) map[string]float64 {
	t.Helper()
	file, err := os.Open(committed)
	if err != nil {
		if *update {
			return nil
		}
		t.Fatal(err)
	}
	defer file.Close()
	numbers := map[string]float64{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		name, number, _ := strings.Cut(lines.Text(), ": ")
		n, err := strconv.ParseFloat(number, 64)
		if err != nil {
			t.Fatalf("%s: %q is no line of NAME: NUMBER", committed, lines.Text())
		}
		numbers[name] = n
	}
	return numbers
}
