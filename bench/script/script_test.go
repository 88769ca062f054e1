package main

import (
	"slices"
	"strings"
	"testing"
)

func TestKeptFigures(t *testing.T) {
	const text = "redis: 7.0.15\none descriptor, many identities: 31500\ntoken: 9000\n"
	k, err := parseKept(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if got := k.String(); got != text {
		t.Errorf("%q; want %q", got, text)
	}
	now := &kept{redis: "7.0.15", scenes: map[string]float64{"one descriptor, many identities": 31500 * 1.04, "token": 9000 * 1.02, "new": 1}}
	want := []string{"new: no kept figure; run with -update", "one descriptor, many identities: 32760 instructions, 1.040 of the kept 31500"}
	if got := k.compare(now); !slices.Equal(got, want) {
		t.Errorf("%q; want %q", got, want)
	}
	now.redis = "8.0"
	if got := k.compare(now); len(got) != 1 || !strings.Contains(got[0], "Redis 7.0.15, not of 8.0") {
		t.Errorf("%q; want that Redis differs", got)
	}
	for _, bad := range []string{"token\n", "token: x\n", "token: 0\n", "token: NaN\n"} {
		if _, err := parseKept(strings.NewReader(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestCollectedIn(t *testing.T) {
	const log = "==7== Callgrind\n==7== Collected : 100\n==9== Events    : Ir\n==9== Collected : 12345\n==9== \n"
	if n, err := collectedIn(log); n != 12345 || err != nil {
		t.Errorf("%v, %v; want 12345", n, err)
	}
	if _, err := collectedIn("Killed\n"); err == nil {
		t.Error("instructions without a report")
	}
}

// A settlement needs the answers of its take, whose batch must have passed.
func TestStepsSettleReceiptsThatAreKnown(t *testing.T) {
	s := scene{settles: true}
	var passed, last int
	for i, st := range s.steps(4) {
		if st.settles && st.number >= passed {
			t.Errorf("step %d settles batch %d, which waits", i, st.number)
		}
		if !st.settles {
			passed, last = last, st.number+1
		}
	}
	if n := len(s.steps(4)); n != 7 {
		t.Errorf("%d steps; want 7", n)
	}
}

func TestSceneNamesDiffer(t *testing.T) {
	seen := map[string]bool{}
	for i := range scenes {
		if name := scenes[i].name(); seen[name] || strings.Contains(name, ": ") {
			t.Errorf("%q is a second scene, or no name in a file of figures", name)
		}
		seen[scenes[i].name()] = true
	}
}
