package rules

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// match returns the match of a request with the set's only rule.
func match(t testing.TB, set *Set, params map[string]string) *Match {
	t.Helper()
	var m Matches
	set.Match(MakeParams(params), &m)
	if len(m.List) != 1 {
		t.Fatalf("%d rules match %q; want one", len(m.List), params)
	}
	checkIdentity(t, &m.List[0])
	return &m.List[0]
}

// checkIdentity checks that an identity consists of exactly the values of its rule.
func checkIdentity(t testing.TB, m *Match) {
	t.Helper()
	again := []byte{byte(len(m.Values()))}
	for _, v := range m.Values() {
		again = binary.AppendUvarint(again, uint64(len(v.Value)))
		again = append(again, v.Value...)
	}
	if !bytes.Equal(m.Identity, again) || len(m.Values()) >= 0xF0 {
		t.Fatalf("the identity %q holds %q", m.Identity, m.Values())
	}
}

func TestIdentity(t *testing.T) {
	for _, c := range []struct {
		why, conditions string
		params          map[string]string
		want            []string
	}{
		{"ordered by name", "uid=+; act=ask; Z=+", map[string]string{"uid": "7", "act": "ask", "Z": "z"}, []string{"z", "ask", "7"}},
		{"a joint value excludes its parameter", "act=ask,answer{~}; uid=+", map[string]string{"act": "ask", "uid": "7"}, []string{"7"}},
		{"also after a pattern", "ip=10.0.0.*{~}; uid=+", map[string]string{"ip": "10.0.0.1", "uid": "7"}, []string{"7"}},
		{"also after a word list", "ip @ nets{~}", map[string]string{"ip": "10.0.0.1"}, []string{}},
		{"what must be absent adds nothing", "key!=+; act=api", map[string]string{"act": "api"}, []string{"api"}},
		{"trimmed", "uid=+", map[string]string{"uid": " 007 "}, []string{"007"}},
		{"an integer of a range is canonical", "n=1-100", map[string]string{"n": " 007 "}, []string{"7"}},
		{"minus zero is zero", "n=-5-5", map[string]string{"n": "-000"}, []string{"0"}},
		{"an integer of a bound is canonical", "n>-100; m<5", map[string]string{"n": "-07", "m": "004"}, []string{"4", "-7"}},
		{"an integer among single values is text", "n!=8", map[string]string{"n": "007"}, []string{"007"}},
		{"an address of a block is canonical", "ip=10.0.0.0/8", map[string]string{"ip": "::ffff:10.1.1.1"}, []string{"10.1.1.1"}},
		{"an address of a pattern is canonical", "ip=10.*.1.*", map[string]string{"ip": "::FFFF:a01:101"}, []string{"10.1.1.1"}},
		{"IPv6 is canonical", "ip=2001:db8::/32", map[string]string{"ip": "2001:0DB8:0::0001"}, []string{"2001:db8::1"}},
		{"an address among addresses is canonical", "ip=10.0.0.1,word", map[string]string{"ip": "::ffff:10.0.0.1"}, []string{"10.0.0.1"}},
		{"so is one that is none of them", "ip!=10.0.0.1", map[string]string{"ip": "::FFFF:10.0.0.2"}, []string{"10.0.0.2"}},
		{"an address that is not compared is text", "ip=+", map[string]string{"ip": "::ffff:10.0.0.1"}, []string{"::ffff:10.0.0.1"}},
		{"an address of a word list is canonical", "ip @ nets", map[string]string{"ip": "::ffff:10.0.0.1"}, []string{"10.0.0.1"}},
		{"a word among addresses is text", "ip @ nets", map[string]string{"ip": "unknown"}, []string{"unknown"}},
		{"any bytes", "a=+; b=+", map[string]string{"a": "\x00|\xff", "b": "{}"}, []string{"\x00|\xff", "{}"}},
		{"a value of many bytes", "a=+", map[string]string{"a": strings.Repeat("k", 5000)}, []string{strings.Repeat("k", 5000)}},
	} {
		t.Run(c.why, func(t *testing.T) {
			got := []string{}
			for _, v := range match(t, ruleSet(t, c.conditions), c.params).Values() {
				got = append(got, v.Value)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("[%s] for %q (-want +got):\n%s", c.conditions, c.params, diff)
			}
		})
	}
}

func TestDirectRulesHaveNoIdentity(t *testing.T) {
	set, findings := Parse([]Source{{"rules.conf", []byte("[rules]\nrule : [direct] [a=+] [] [result=2; return=1]" + entries)}}, Options{})
	if set == nil {
		t.Fatal(findings)
	}
	var m Matches
	if set.Match(MakeParams(map[string]string{"a": "1"}), &m); len(m.List) != 1 || m.List[0].Identity != nil || m.List[0].Values() != nil {
		t.Errorf("got %+v; want one match without identity", m.List)
	}
}

func TestCost(t *testing.T) {
	text := "[rules]\nrule : [count] [a=+] [time=60; count=5; cost=points] [result=2; return=1]" + entries
	set, findings := Parse([]Source{{"rules.conf", []byte(text)}}, Options{})
	if set == nil {
		t.Fatal(findings)
	}
	for value, want := range map[string]int64{
		"3": 3, " 007 ": 7, "0": 0, "-0": 0, "1000000000000000": 1_000_000_000_000_000,
		"": 1, "-1": 1, "many": 1, "1000000000000001": 1, "1.5": 1, "+3": 1, "99999999999999999999": 1,
	} {
		var m Matches
		set.Match(MakeParams(map[string]string{"a": "1", "points": value}), &m)
		if len(m.List) != 1 || m.List[0].Cost != want {
			t.Errorf("points=%q: %+v; want cost %d", value, m.List, want)
		}
	}
	var m Matches
	if set.Match(MakeParams(map[string]string{"a": "1"}), &m); m.List[0].Cost != 1 {
		t.Errorf("without points: cost %d; want 1", m.List[0].Cost)
	}
	if !set.Uses("points") || !set.Uses("a") || set.Uses("b") {
		t.Error("the set uses a and points, and not b")
	}
}

// FuzzIdentityIsInjective compares two requests: they share a counter if and only if
// all their trimmed values are equal.
func FuzzIdentityIsInjective(f *testing.F) {
	f.Add("a|b", "c", "a", "b|c")
	f.Add("", "x", "x", "")
	f.Add("\x01a", "b", "\x01", "ab")
	f.Add(strings.Repeat("k", 300), "1", strings.Repeat("k", 301), "")
	set := ruleSet(f, "a=+; b=+")
	f.Fuzz(func(t *testing.T, a1, b1, a2, b2 string) {
		for _, v := range []string{a1, b1, a2, b2} {
			if strings.TrimSpace(v) == "" {
				return
			}
		}
		one := match(t, set, map[string]string{"a": a1, "b": b1})
		other := match(t, set, map[string]string{"b": b2, "a": a2})
		same := strings.TrimSpace(a1) == strings.TrimSpace(a2) && strings.TrimSpace(b1) == strings.TrimSpace(b2)
		if bytes.Equal(one.Identity, other.Identity) != same {
			t.Errorf("(%q, %q) and (%q, %q): %q and %q", a1, b1, a2, b2, one.Identity, other.Identity)
		}
	})
}

func TestValuesDecodeIdentity(t *testing.T) {
	m := match(t, ruleSet(t, "uid=+; act=ask,list{~}; ip=10.0.0.0/8; key!=+"), map[string]string{"uid": " 7", "act": "ask", "ip": "::ffff:10.0.0.1"})
	want := []Param{{"ip", "10.0.0.1"}, {"uid", "7"}}
	if diff := cmp.Diff(want, m.Values()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
