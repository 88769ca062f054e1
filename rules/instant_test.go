package rules

import (
	"fmt"
	"testing"
	"time"
)

func TestInstantsInZones(t *testing.T) {
	for _, c := range []struct{ zone, text, want string }{
		{"UTC", "2026-06-01", "2026-06-01T00:00:00Z"},
		{"Asia/Shanghai", "2026-06-01T12:00", "2026-06-01T04:00:00Z"},
		{"Asia/Shanghai", "2026-06-01T12:00:30", "2026-06-01T04:00:30Z"},
		{"Europe/Berlin", "2026-03-29T02:30", "2026-03-29T01:00:00Z"},    // skipped
		{"Europe/Berlin", "2026-03-29T02:00", "2026-03-29T01:00:00Z"},    // skipped
		{"Europe/Berlin", "2026-03-29T01:59:59", "2026-03-29T00:59:59Z"}, // before the gap
		{"Europe/Berlin", "2026-10-25T02:30", "2026-10-25T00:30:00Z"},    // twice
		{"Europe/Berlin", "2026-10-25T03:00", "2026-10-25T02:00:00Z"},    // once
		{"America/New_York", "2026-11-01T01:30", "2026-11-01T05:30:00Z"}, // twice
		{"America/Havana", "2026-03-08", "2026-03-08T05:00:00Z"},         // no midnight
		{"America/Havana", "2026-11-01", "2026-11-01T04:00:00Z"},         // two midnights
		{"Pacific/Apia", "2011-12-30", "2011-12-30T10:00:00Z"},           // no such day
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		at, err := ParseTime(c.text, zone)
		if got := at.UTC().Format(time.RFC3339); err != nil || got != c.want {
			t.Errorf("%s in %s is %s, %v; want %s", c.text, c.zone, got, err, c.want)
		}
	}
	for _, text := range []string{"", "2026", "2026-06", "2026-06-01T12", "2026-06-01 12:00", "2026-06-01T24:00", "2026-13-01", "1970-01-01", "10000-01-01", "2026-06-01T12:00Z", "+2026-06-01"} {
		if at, err := ParseTime(text, time.UTC); err == nil {
			t.Errorf("%q is %v; want an error", text, at)
		}
	}
}

// timedSet returns a set of direct rules with these conditions and outcome words.
func timedSet(t testing.TB, rules ...[2]string) (*Set, Findings) {
	t.Helper()
	text := []byte("[rules]\n")
	for i, r := range rules {
		text = fmt.Appendf(text, "rule : [direct] [%s] [] [result=2; return=%d%s]\n", r[0], i+1, r[1])
	}
	set, findings := Parse([]Source{{"rules.conf", append(text, entries...)}}, Options{Timezone: "UTC"})
	if set == nil {
		t.Fatal(findings)
	}
	return set, findings
}

func TestRulesAreActiveFromSinceToUntil(t *testing.T) {
	set, _ := timedSet(t, [2]string{"a=1", "; since=2026-06-01; until=2026-06-02"}, [2]string{"a=2,1", "; until=2026-06-01T00:00:01"}, [2]string{"a=3", "; since=2026-06-01"})
	if plain, _ := timedSet(t, [2]string{"a=1", ""}); !set.Timed() || plain.Timed() {
		t.Errorf("Timed is %v for a set with since, and %v without", set.Timed(), plain.Timed())
	}
	var m Matches
	for _, c := range []struct{ at, value, want string }{
		{"2026-05-31T23:59:59.999Z", "1", "[2]"},
		{"2026-06-01T00:00:00.000Z", "1", "[1 2]"},
		{"2026-06-01T00:00:00.999Z", "1", "[1 2]"},
		{"2026-06-01T00:00:01.000Z", "1", "[1]"},
		{"2026-06-01T23:59:59.999Z", "1", "[1]"},
		{"2026-06-02T00:00:00.000Z", "1", "[]"},
		{"2026-05-31T23:59:59.999Z", "3", "[]"},
		{"2099-01-01T00:00:00.000Z", "3", "[3]"},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		m.Now = at.UnixMilli()
		set.Match(MakeParams(map[string]string{"a": c.value}), &m)
		got := []int64{}
		for _, match := range m.List {
			got = append(got, match.Rule.Return)
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("a=%s at %s meets %v; want %s", c.value, c.at, got, c.want)
		}
	}
	p := MakeParams(map[string]string{"a": "1"})
	if n := testing.AllocsPerRun(100, func() { set.Match(p, &m) }); n != 0 {
		t.Errorf("%v allocations a match; want none", n)
	}
}

// TestTimedDirectRulesHideNoRule checks that a direct rule that is active for a time only
// makes no rule unreachable.
func TestTimedDirectRulesHideNoRule(t *testing.T) {
	for outcome, want := range map[string]int{"": 1, "; since=2026-06-01": 0, "; until=2026-06-01": 0} {
		if _, findings := timedSet(t, [2]string{"a=1", outcome}, [2]string{"a=1; b=2", ""}); len(findings) != want {
			t.Errorf("%q: got %v, want %d findings", outcome, findings, want)
		}
	}
}
