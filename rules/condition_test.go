package rules

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
)

const entries = `
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// ruleSet returns a set of count rules with these conditions, numbered from 1.
func ruleSet(t testing.TB, conditions ...string) *Set {
	t.Helper()
	var b strings.Builder
	b.WriteString("[dicts]\nvip : vip\nnets : nets\n貴賓 : guests\n[rules]\n")
	for i, c := range conditions {
		fmt.Fprintf(&b, "rule : [count] [%s] [time=60; count=1] [result=2; return=%d]\n", c, i+1)
	}
	lists := map[string]string{"guests": "9\n", "vip": "7\nann smith\n007x\n", "nets": "10.0.0.0/8\n192.0.2.7\n2001:db8::/32\n::ffff:198.51.100.0/120\nunknown\n"}
	set, findings := Parse([]Source{{"rules.conf", []byte(b.String() + entries)}}, Options{
		Timezone: "UTC",
		OpenDict: func(_, path string) (*Dict, error) { return ParseDict(path, strings.NewReader(lists[path])) },
	})
	if set == nil {
		t.Fatalf("%v:\n%v", conditions, findings)
	}
	return set
}

func TestConditions(t *testing.T) {
	const absent = "\x00absent"
	for _, c := range []struct {
		condition  string
		holds, not []string
	}{
		{"x=ask", []string{"ask", " ask\t", "ask\u3000"}, []string{"", " ", absent, "Ask", "asks", "as k"}},
		{"x=add comment", []string{"add comment"}, []string{"add  comment", "add"}},
		{"x=10,23,45", []string{"10", " 23 "}, []string{"010", "+10", "10.0", "1", absent}},
		{"x!=ask,list", []string{"read", "ASK", "7", "10.0.0.1"}, []string{"ask", " list ", "", absent}},
		{"x=+", []string{"+", "0", "x y", "\x00", "\xff"}, []string{"", " \t\r\n", absent}},
		{"x!=+", []string{"", " \t", absent}, []string{"0", "+"}},
		{"x = +", []string{"a"}, []string{absent}},

		{"x=1-100,200-300", []string{"1", "100", "200", "007", " 7 ", "0100"}, []string{"0", "101", "199", "301", "+7", "7.0", "7a", "-7", "", absent, "0x7", "7 7", "१"}},
		{"x=-5--1,-0", []string{"-5", "-1", "-01", "0", "-0", "000"}, []string{"-6", "1", "--1", "-"}},
		{"x = 7 , 8 , 100 - 600", []string{"7", "8", "100", "007"}, []string{"9", "99", "601"}},
		{"x!=1-100,200", []string{"0", "101", "-1"}, []string{"1", "050", "200", "0200", "many", "10.0.0.1", "", absent, "99999999999999999999"}},
		{"x=9223372036854775806-9223372036854775807", []string{"9223372036854775807", "09223372036854775806"}, []string{"9223372036854775808", "-9223372036854775808", "9223372036854775805"}},
		{"x=-9223372036854775808--9223372036854775807", []string{"-9223372036854775808", "-9223372036854775807"}, []string{"-9223372036854775809", "-9223372036854775806", "9223372036854775807"}},
		{"x=1-3,2-9,20,5-6", []string{"1", "4", "9", "20"}, []string{"0", "10", "19", "21"}},
		{"x>100", []string{"101", "0101", "9223372036854775807"}, []string{"100", "-101", "1e3", "101.5", "9223372036854775808", "ten", absent}},
		{"x<100", []string{"99", "-9223372036854775808", " 0 "}, []string{"100", "-9223372036854775809", "ten", ""}},
		{"x!>100", []string{"100", "-5"}, []string{"101", "ten", absent}},
		{"x ! < -5", []string{"-5", "0"}, []string{"-6", "ten"}},

		{"x=192.168.0.1-192.168.0.255", []string{"192.168.0.1", "192.168.0.255", "::ffff:192.168.0.9", "::FFFF:c0a8:9"}, []string{"192.168.0.0", "192.168.1.0", "192.168.0.01", "192.168.0", "7", "::1", absent}},
		{"x=10.*.24.*", []string{"10.1.24.1", "10.255.24.0", "::ffff:10.1.24.9"}, []string{"10.1.99.1", "11.1.24.1", "::10.1.24.1", "10.1.24", "x"}},
		{"x=10.0.*.*-10.3.*.9", []string{"10.0.0.0", "10.3.255.9", "10.2.7.7"}, []string{"10.4.0.0", "10.3.255.10"}},
		{"x=10.0.0.0/8", []string{"10.0.0.0", "10.255.255.255"}, []string{"11.0.0.0", "9.255.255.255", "2001:db8::1"}},
		{"x=2001:db8::/32", []string{"2001:db8::1", "2001:0DB8:FFFF::", "2001:db8:0:0:0:0:0:1"}, []string{"2001:db9::", "10.0.0.1", "2001:db8::1%eth0"}},
		{"x=::1-::ff", []string{"::1", "::FF", "0:0:0:0:0:0:0:7"}, []string{"::", "::100", "0.0.0.1"}},
		{"x=::ffff:10.0.0.0/104", []string{"10.1.2.3"}, []string{"11.0.0.0", "::a00:1"}},
		{"x!=10.0.0.0/8", []string{"11.0.0.1", "::1"}, []string{"10.0.0.1", "::ffff:10.9.9.9", "unknown", "7", "", absent}},
		{"x=1-100,10.0.0.0/8", []string{"007", "10.0.0.1"}, []string{"101", "11.0.0.1", "word"}},
		{"x!=1-100,10.0.0.0/8", []string{"101", "11.0.0.1"}, []string{"007", "10.0.0.1", "word"}},

		{"x=10.0.0.1,10.0.0.2,word,7", []string{"10.0.0.1", "::ffff:10.0.0.2", "word", "7"}, []string{"10.0.0.3", "07", "words"}},
		{"x!=10.0.0.1", []string{"unknown", "10.0.0.2", "7", "::1", "10.0.0.01"}, []string{"10.0.0.1", "::ffff:a00:1", " 10.0.0.1 ", absent}},
		{"x=2001:DB8:0::1", []string{"2001:db8::1"}, []string{"2001:db8::2"}},

		{"x @ vip", []string{"7", " ann smith "}, []string{"07", "ann", absent, ""}},
		{"x!@vip", []string{"07", "x"}, []string{"7", "ann smith", absent, " "}},
		{"x ! @ vip", []string{"07"}, []string{"7"}},
		{"x @ nets", []string{"10.1.2.3", "::ffff:10.1.2.3", "192.0.2.7", "198.51.100.200", "unknown", "2001:db8:1::"}, []string{"11.0.0.0", "192.0.2.8", "198.51.101.0", "10", "Unknown"}},
		{"x @ vip,貴賓", []string{"7", "ann smith", "9"}, []string{"07", "8", absent, ""}},
		{"x !@ vip, 貴賓", []string{"07", "8"}, []string{"7", " 9 ", absent}},
		{"x @ vip,nets", []string{"7", "unknown", "::ffff:10.1.2.3", "2001:db8::1"}, []string{"11.0.0.0", "x"}},
		{"x !@ nets,vip", []string{"11.0.0.0", "x"}, []string{"7", "unknown", "10.1.2.3", absent}},
		{"x !@ nets", []string{"11.0.0.0", "word"}, []string{"::FFFF:10.1.2.3", "unknown"}},
		{"x-IN-vip", []string{"7"}, []string{"8"}},
		{"x-IN- vip", []string{"7"}, []string{"8"}},
		{"x-IN-貴賓", []string{"9"}, []string{"7"}},
		{"x -NOTIN- 貴賓{~}", []string{"7"}, []string{"9", absent}},
		{"x-IN-vip=7", nil, []string{"7", absent}},
		{"x-NOTIN-vip{*}", []string{"8"}, []string{"7", absent}},

		{"x ~ bot", []string{"bot", " bot "}, []string{"robot", "bots", "Bot", "", absent}},
		{"x~*bot*,curl/?*", []string{"bot", "Googlebot/2", "curl/8"}, []string{"Bot", "curl/", "acurl/8", "bo", "", absent}},
		{"x ! ~ *bot*,curl/?*", []string{"Bot", "curl/", "7", "10.0.0.1"}, []string{"robots", "curl/8", " ", absent}},
		{"x ~ *", []string{"a", "\xff", "\x00"}, []string{" ", "", absent}},
		{"x ~ ?", []string{"a", "é", "😀", "\xff", "\xa9"}, []string{"ab", "e\u0301", "\xff\xff", "\xe2\x82"}},
		{"x ~ *??", []string{"ab", "éé", "a\xff", "\xe2\x82"}, []string{"€", "é", "a"}},
		{"x ~ ?*?c,?*é?*", []string{"abc", "aéb", "€€c"}, []string{"bc", "éb", "aé", "éc"}},
		{"x ~ a*b?c*d", []string{"ab1cd", "aab1b2cdd", "abbcbd", "ab€cd"}, []string{"abcd", "ab1c", "b1cd", "ab12cd"}},
		{"x ~ *a?a?b*", []string{"aaaab", "1a1a1b1", "aaaaaab"}, []string{"aaab", "aabb1"}},
		{"x ~ ab*ba", []string{"abba", "ab1ba"}, []string{"aba", "ab"}},
		{"x ~ ??*,\\", []string{"ab", "abc", `\`}, []string{"a", "é", `"`}},
		{`x ~ "a\*b\?\\\"*", +`, []string{`a*b?\"`, `a*b?\"c`, "+"}, []string{`acb?\"`, `a*bc\"`, "a"}},
		{`x ~ "a,b;c]*",007,10-20,10.0.0.*`, []string{"a,b;c]d", "007", "10-20", "10.0.0.9"}, []string{"a", "7", "15", "::ffff:10.0.0.9"}},
		{`x="a;b]"`, []string{"a;b]", " a;b] "}, []string{"a", `"a;b]"`}},
		{`x="1-5",7`, []string{"1-5", "7"}, []string{"3", "07"}},
		{`x="7",100-200`, []string{"7", "150", "0150"}, []string{"07", "8"}},
		{`x!="many",1-100`, []string{"101"}, []string{"many", "few", "7"}},
		{`x="+"`, []string{"+"}, []string{"a", absent}},
		{`x="10.0.0.1"`, []string{"10.0.0.1"}, []string{"::ffff:10.0.0.1"}},
		{`x="a \"b\" \\c", "d,e"`, []string{`a "b" \c`, "d,e"}, []string{`a \"b\" \\c`, "d", "e"}},
		{"x=a{~},b{~}", []string{"a", "b"}, []string{"c", "a{~}"}},
		{"x=2026-01-02", []string{"2026-01-02"}, []string{"2026"}},
		{"x=99999999999999999999", []string{"99999999999999999999"}, []string{"099999999999999999999"}},
	} {
		set := ruleSet(t, c.condition)
		for want, values := range map[bool][]string{true: c.holds, false: c.not} {
			for _, v := range values {
				params := MakeParams(map[string]string{"x": v, "y": "1"})
				if v == absent {
					params.Delete("x")
				}
				var m Matches
				set.Match(params, &m)
				failed := set.Rules[0].failed(params)
				if got := len(m.List) == 1; got != want || (failed == nil) != want {
					t.Errorf("[%s] holds for %q: %v, and fails by %v; want %v", c.condition, v, got, failed, want)
				}
			}
		}
	}
}

// failed returns the first condition that does not hold for a request, nil if the rule
// matches. It does not use the index.
func (r *Rule) failed(p *Params) *Condition {
	for _, c := range r.Conditions {
		if !c.OfResponse() && !c.Holds(p, 0) {
			return c
		}
	}
	return nil
}

func TestConditionPosition(t *testing.T) {
	c := ruleSet(t, "act=ask; uid=+; n>5").Rules[0].Conditions[1]
	if c.String() != "uid=+" || c.Pos.Column != 26 {
		t.Errorf("got %+v; want uid=+ at column 26", c)
	}
}

func TestConditionText(t *testing.T) {
	for written, want := range map[string]string{
		"x = ask , list{~}":           "x=ask,list{~}",
		"x ! = +":                     "x!=+",
		"x=7, 100 - 200, 0010 - 0012": "x=7,100-200,10-12",
		"x > 007{*}":                  "x>7{~}",
		"x ! @ vip":                   "x !@ vip",
		"x-IN-vip{~}":                 "x @ vip{~}",
		"x @ vip , nets":              "x @ vip,nets",
		"x ! @ nets{~},vip":           "x !@ nets,vip{~}",
		"x-NOTIN-vip,nets":            "x !@ vip,nets",
		`x="a;b]",  b`:                `x="a;b]",b`,
		`x="say \"a\\b\""`:            `x="say \"a\\b\""`,
		"x=2001:DB8::0/32":            "x=2001:db8::/32",
		"x=::ffff:10.0.0.1":           "x=10.0.0.1",
		"x=10.*.*.*-11.*.0.*":         "x=10.*.*.*-11.*.0.*",
	} {
		c := ruleSet(t, written).Rules[0].Conditions[0]
		if c.String() != want {
			t.Errorf("%s is written %s; want %s", written, c, want)
		}
		if again := ruleSet(t, c.String()).Rules[0].Conditions[0]; again.String() != want {
			t.Errorf("%s is read again as %s", want, again)
		}
	}
}

func TestParseInteger(t *testing.T) {
	for _, text := range []string{
		"0", "-0", "7", "007", "-007", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "-9223372036854775809",
		"18446744073709551616", "000000000000000000000000001", strconv.Itoa(math.MaxInt32), "99999999999999999999999999999999",
	} {
		got, ok := parseInteger(text)
		want, err := strconv.ParseInt(text, 10, 64)
		if ok != (err == nil) || ok && got != want {
			t.Errorf("%s: %d, %v; want %d, %v", text, got, ok, want, err)
		}
	}
	for _, text := range []string{"", "-", "+1", "1 ", "--1", "1-", "1_000", "0x1", "١"} {
		if n, ok := parseInteger(text); ok {
			t.Errorf("%q is %d; want none", text, n)
		}
	}
}
