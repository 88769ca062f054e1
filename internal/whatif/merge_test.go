package whatif

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// forged returns a report with as many rules and identities as a report may have, all new.
func forged(from int, count int64) *Found {
	d := Differences{NewlyRefused: count, NewlyAllowed: count}
	f := &Found{Totals: Totals{Requests: count, Dropped: count, RefusedInForce: count, RefusedOnTrial: count, Differences: d}}
	for i := range maxReadRules {
		r := Rule{Rule: int64(from*maxReadRules + i), Name: strings.Repeat("\x1b", 1000), Differences: d}
		for j := range maxReadIdentities / maxReadRules {
			r.Identities = append(r.Identities, Identity{fmt.Sprintf("%d.%d.%d\x1b[2J", from, i, j), d})
		}
		f.Rules = append(f.Rules, r)
	}
	return f
}

// Whoever can write to Redis can write a thousand reports, each with rules and identities of
// its own. Merging them takes bounded memory and time, and keeps what has most.
func TestForgedReportsAreMergedInBounds(t *testing.T) {
	var m Tally
	honest := Found{Totals: Totals{Requests: 7}, Rules: []Rule{{Rule: 7, Name: "honest", Differences: Differences{NewlyRefused: 1000}, Identities: []Identity{
		{"uid=ann", Differences{NewlyRefused: 1000}},
	}}}}
	begun := time.Now()
	const reports = 100
	for i := range reports {
		m.Merge(forged(i+1, 1))
		m.Merge(&honest)
	}
	one := Rule{Rule: 7, Name: "honest"}
	for i := range maxReadIdentities {
		one.Identities = append(one.Identities, Identity{strconv.Itoa(i), Differences{NewlyRefused: 1}})
	}
	for range 30 {
		m.Merge(&Found{Rules: []Rule{one}})
	}
	t.Log(time.Since(begun))
	identities := 0
	for _, r := range m.rules {
		identities += len(r.identities.Sorted())
	}
	if len(m.rules) > 2*mergedRules || identities > 20_000 {
		t.Errorf("%d rules and %d identities are kept", len(m.rules), identities)
	}
	all := m.Found(ShownIdentities)
	if first := all.Rules[0]; first.Name != "honest" || first.NewlyRefused != 1000*reports || first.Identities[0].Identity != "uid=ann" {
		t.Errorf("%+v; want the rule with most differences first", all.Rules[0])
	}
	for _, r := range all.Rules {
		if strings.ContainsRune(r.Name, '\x1b') || len(r.Name) > 2*maxText {
			t.Fatalf("%q", r.Name)
		}
		for _, x := range r.Identities {
			if strings.ContainsRune(x.Identity, '\x1b') || len(x.Identity) > 2*maxText {
				t.Fatalf("%q", x.Identity)
			}
		}
	}
}

// A report may state a count a million times, so that sums would become negative.
func TestForgedCountsSaturate(t *testing.T) {
	d := Differences{NewlyRefused: maxCount, NewlyAllowed: maxCount}
	f := Found{Totals: Totals{Requests: maxCount, Dropped: maxCount, RefusedInForce: maxCount, RefusedOnTrial: maxCount, Differences: d}}
	for range maxReadRules {
		f.Rules = append(f.Rules, Rule{Rule: 1, Differences: d, Identities: []Identity{{"uid=1", d}, {"uid=1", d}}})
	}
	text := f.Encode()
	got, err := ParseFound(text)
	if err != nil {
		t.Fatal(err)
	}
	var m Tally
	for range 1100 {
		m.Merge(&got)
	}
	all := m.Found(ShownIdentities)
	for name, n := range map[string]int64{
		"requests": all.Requests, "dropped": all.Dropped, "refused": all.RefusedOnTrial, "newly refused": all.NewlyRefused,
		"of the rule": all.Rules[0].NewlyAllowed, "of the identity": all.Rules[0].Identities[0].NewlyRefused, "in all": all.Rules[0].Sum(),
	} {
		if n != math.MaxInt64 {
			t.Errorf("%s: %d; want the largest number", name, n)
		}
	}
}

func TestForgedReportsAreRefused(t *testing.T) {
	identities := strings.TrimSuffix(strings.Repeat(`{"identity":"a"},`, maxReadIdentities+1), ",")
	for _, text := range []string{
		"", "null?", "{", `[]`, `{"requests":NaN}`, `{"requests":-1}`, `{"requests":1e309}`, `{"requests":9007199254740993}`, `{"requests":1.5}`,
		`{"rules":[{"rule":-1}]}`, `{"rules":[{"newly_refused":-1}]}`, `{"rules":[{"identities":[{"newly_allowed":-1}]}]}`,
		`{"rules":[` + strings.TrimSuffix(strings.Repeat(`{},`, maxReadRules+1), ",") + `]}`, `{"rules":[{"identities":[` + identities + `]}]}`,
		`{"rules":` + strings.Repeat("[", 100_000),
	} {
		if f, err := ParseFound([]byte(text)); err == nil {
			t.Errorf("%.50s is read as %+v", text, f)
		}
	}
}

func TestMerge(t *testing.T) {
	one := func(name string, refused int64) Identity {
		return Identity{Identity: name, Differences: Differences{NewlyRefused: refused}}
	}
	d := func(refused int64) Differences { return Differences{NewlyRefused: refused} }
	var tally Tally
	for _, f := range []Found{
		{Totals: Totals{Requests: 10, Dropped: 1, Differences: d(5)}, Rules: []Rule{{Rule: 1, Differences: d(5), Identities: []Identity{one("a", 3), one("b", 2)}}}},
		{Totals: Totals{Requests: 20, RefusedOnTrial: 8, Differences: d(8)}, Rules: []Rule{
			{Rule: 2, Differences: d(1), Identities: []Identity{}}, {Rule: 1, Differences: d(7), Identities: []Identity{one("b", 7)}},
		}},
	} {
		tally.Merge(&f)
	}
	want := Found{
		Totals: Totals{Requests: 30, Dropped: 1, RefusedOnTrial: 8, Differences: d(13)},
		Rules: []Rule{
			{Rule: 1, Differences: d(12), Identities: []Identity{one("b", 9), one("a", 3)}},
			{Rule: 2, Differences: d(1), Identities: []Identity{}},
		},
	}
	if diff := cmp.Diff(want, tally.Found(ShownIdentities)); diff != "" {
		t.Error(diff)
	}
}
