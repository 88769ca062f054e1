package envoylimits_test

import (
	"strings"
	"testing"

	"github.com/koalagate/koalagate/internal/envoylimits"
)

func TestReasonNamesTheLevelWithoutAMatch(t *testing.T) {
	set, err := compile(begin + `key: route
  value: r1
  descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: user, value: a*, rate_limit: {unit: hour, requests_per_unit: 2}}
- key: empty
- {key: k1}
- {key: k2}
- {key: k3}
- {key: k4}
- {key: k5}
- {key: k6}
- {key: k7}`)
	if err != nil {
		t.Fatal(err)
	}
	var m envoylimits.Match
	for _, c := range []struct{ domain, entries, want string }{
		{"e", "route=r1", `the domain "e" has no limits (there are "d")`},
		{"d", "", `nothing below "d" matches "=" (there are "empty", "k1", "k2", "k3", "k4", "k5", "k6", "k7" and 1 more)`},
		{"d", "route=r1,group=g", `nothing below "d.route_r1" matches "group=g" (there are "user", "user_a*")`},
		{"d", "route=r1", `"d.route_r1" itself has no limit, and limits below it need another entry (there are "user", "user_a*")`},
		{"d", "empty=x", `"d.empty" has no limit`},
		{"d", "empty=x,user=u", `nothing below "d.empty" matches "user=u"`},
	} {
		list := entries(c.entries)
		if set.Match(c.domain, list, &m); m.Limit != nil {
			t.Fatalf("%s has a limit", c.entries)
		}
		if got := set.Reason(c.domain, list, &m); got != c.want {
			t.Errorf("%s %s:\n%s; want\n%s", c.domain, c.entries, got, c.want)
		}
	}
	set.Match("d", nil, &m)
	if got := set.Reason("d", nil, &m); got != "the descriptor has no entries" {
		t.Errorf("without entries: %s", got)
	}
}

func TestLimitsInWords(t *testing.T) {
	set, err := compile(strings.Join([]string{
		"domain: d\ndescriptors:",
		"- {key: a, rate_limit: {unit: MONTH, requests_per_unit: 4294967295}}",
		"- {key: b, shadow_mode: true, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 0}}",
		"- {key: c, rate_limit: {unlimited: true, replaces: [{name: x}, {name: y}]}}",
	}, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"at most 4294967295 per month", "at most 0 per day, in shadow mode, as a quota", "unlimited, in place of x, y"} {
		if got := set.Limits()[i].Text(); got != want {
			t.Errorf("%s; want %s", got, want)
		}
	}
}
