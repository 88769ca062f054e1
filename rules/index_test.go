package rules

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// FuzzIndexAgreesWithLinearSearch checks that the index finds the same rules as a walk over all
// rules, in the same order.
func FuzzIndexAgreesWithLinearSearch(f *testing.F) {
	for seed := range uint64(50) {
		f.Add(seed)
	}
	conditions := []string{
		"a=1", "a=1,2", `a="1",3`, "a=1-2", "a=2-7", "a=-5-3,7", "a!=1", "a!=1-2", "a=+", "a!=+", "a=10.0.0.1,1", `a="10.0.0.1",10.0.0.0/8`,
		"a>1", "a<1", "a!>1", "a!<3", "a>9223372036854775807", "a!>9223372036854775807", "a<-9223372036854775808", "a!<-9223372036854775808",
		"a @ vip", "a !@ vip", "a=10.0.0.0/8", "a=10.0.0.0/8,::/0", "a=10.*.0.1", "a=10.0.0.0-11.0.0.1", "a=0.0.0.0/0", "a=::ffff:10.0.0.1",
		"a @ vip,nets", "a @ vip, 貴賓", "a !@ nets,vip", "b !@ 貴賓,vip", "b=1", "b=2,x", "b=+", "b @ vip", "b=ffff::/16", "b=1-3", "c=1", "c=x", "c!=x,1", "d=1,2,3,4", "d=3-100", "e=1",
	}
	words := []string{
		"", "1", " 1", "2", "3", "x", "7", "9", "unknown", "01", "-5", "9223372036854775807", "-9223372036854775808", "9223372036854775808",
		"10.0.0.1", "10.9.0.1", "11.0.0.1", "::ffff:10.0.0.1", "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "255.255.255.255",
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 0))
		var rules []string
		for range 1 + random.IntN(40) {
			var parts []string
			used := ""
			for range random.IntN(4) {
				c := conditions[random.IntN(len(conditions))]
				if !strings.Contains(used, c[:1]) {
					parts, used = append(parts, c), used+c[:1]
				}
			}
			rules = append(rules, strings.Join(parts, "; "))
		}
		set := ruleSet(t, rules...)
		var m Matches
		for range 20 {
			p := &Params{}
			for _, name := range []string{"a", "b", "c", "d", "e"} {
				p.Set(name, words[random.IntN(len(words))])
			}
			var want, got []int64
			for _, r := range set.Rules {
				if r.failed(p) == nil {
					want = append(want, r.Return)
				}
			}
			set.Match(p, &m)
			for _, match := range m.List {
				got = append(got, match.Rule.Return)
			}
			if fmt.Sprint(want) != fmt.Sprint(got) {
				t.Fatalf("%q meets %v; want %v of %q", p.List(), got, want, rules)
			}
		}
	})
}

// TestIndexTestsFewRules checks that, of a thousand rules, only the rules to which a
// value of the request leads are tested.
func TestIndexTestsFewRules(t *testing.T) {
	list := func(i int) string { return fmt.Sprintf("list%d", i%10) }
	for _, c := range []struct {
		name  string
		rule  func(i int) string
		value string
		want  int
	}{
		{"words", func(i int) string { return fmt.Sprintf("door=nginx; a=act%d,other%d; uid=+", i, i) }, "other7", 1},
		{"integers", func(i int) string { return fmt.Sprintf("door=nginx; a=%d-%d; uid=+", 10*i, 10*i+8) }, "75", 1},
		{"ranges in ranges", func(i int) string { return fmt.Sprintf("a=%d-%d; uid=+", i, 2000-i) }, "3", 4},
		{"bounds", func(i int) string { return fmt.Sprintf("a>%d; uid=+", i) }, "4", 4},
		{"bounds, negated", func(i int) string { return fmt.Sprintf("a!>%d; uid=+", i) }, "995", 5},
		{"blocks", func(i int) string { return fmt.Sprintf("door=nginx; a=10.%d.%d.0/24; uid=+", i/256, i%256) }, "10.0.7.3", 1},
		{"blocks of IPv6", func(i int) string { return fmt.Sprintf("a=2001:db8:%x::/48; uid=+", i) }, "2001:db8:7::1", 1},
		{"patterns", func(i int) string { return fmt.Sprintf("a=10.%d.%d.*; uid=+", i/256, i%256) }, "::ffff:10.0.7.3", 1},
		{"word lists", func(i int) string { return "door=nginx; uid=+; a @ " + list(i) }, "7", 100},
		{"several word lists", func(i int) string { return "door=nginx; uid=+; a @ " + list(i) + "," + list(i+5) }, "7", 200},
		{"parameters", func(i int) string { return fmt.Sprintf("door=nginx; p%d=+; uid=+", i) }, "", 1},
		{"parameters, negated", func(i int) string { return fmt.Sprintf("door=nginx; p%d!=x; uid=+", i) }, "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			conditions := make([]string, 1000)
			for i := range conditions {
				conditions[i] = c.rule(i)
			}
			set := listedSet(t, conditions)
			p := MakeParams(map[string]string{"door": "nginx", "a": c.value, "uid": "1", "p7": "1"})
			var m Matches
			m.read(&set.index, p)
			m.collect(&set.index)
			looked := 0
			for m.next() >= 0 {
				looked++
			}
			set.Match(p, &m)
			if looked != c.want || len(m.List) != c.want {
				t.Errorf("%d rules are looked at and %d match; want %d", looked, len(m.List), c.want)
			}
			if n := testing.AllocsPerRun(100, func() { set.Match(p, &m) }); n != 0 {
				t.Errorf("%v allocations a match; want none", n)
			}
		})
	}
}

// listedSet returns a set with the word lists list0 … list9, each with one digit.
func listedSet(t *testing.T, conditions []string) *Set {
	t.Helper()
	var text strings.Builder
	text.WriteString("[dicts]\n")
	for i := range 10 {
		fmt.Fprintf(&text, "list%d : %d\n", i, i)
	}
	text.WriteString("[rules]\n")
	for i, c := range conditions {
		fmt.Fprintf(&text, "rule : [direct] [%s] [] [result=2; return=%d]\n", c, i+1)
	}
	set, findings := Parse([]Source{{"rules.conf", []byte(text.String() + entries)}}, Options{OpenDict: func(_, path string) (*Dict, error) {
		return ParseDict(path, strings.NewReader(path))
	}})
	if set == nil {
		t.Fatal(findings)
	}
	return set
}

func TestMatchesAreReusableAcrossSets(t *testing.T) {
	first, second := ruleSet(t, "a=1; b=+", "c=+"), ruleSet(t, "b=+; a=2", "c!=+")
	var m Matches
	for _, c := range []struct {
		set    *Set
		params map[string]string
		want   string
	}{
		{first, map[string]string{"a": "1", "b": "1", "c": "1"}, "[1 2]"},
		{second, map[string]string{"a": "2", "b": "1"}, "[1 2]"},
		{first, map[string]string{"b": "1"}, "[]"},
		{first, map[string]string{"a": "1", "c": " "}, "[]"},
		{second, map[string]string{"c": "1"}, "[]"},
		{second, nil, "[2]"},
	} {
		c.set.Match(MakeParams(c.params), &m)
		numbers := []int64{}
		for _, match := range m.List {
			numbers = append(numbers, match.Rule.Return)
		}
		if got := fmt.Sprint(numbers); got != c.want {
			t.Errorf("%v meets %s; want %s", c.params, got, c.want)
		}
	}
}

func TestRangeTree(t *testing.T) {
	for name, list := range map[string][]interval[key]{
		"none":      nil,
		"all":       {{key{}, key{^uint64(0), ^uint64(0)}}},
		"the ends":  {{key{}, key{}}, {key{^uint64(0), ^uint64(0)}, key{^uint64(0), ^uint64(0)}}, {key{0, 5}, key{0, 5}}},
		"a carry":   {{key{0, ^uint64(0) - 1}, key{0, ^uint64(0)}}, {key{1, 0}, key{1, 1}}},
		"nested":    {{key{0, 1}, key{0, 9}}, {key{0, 2}, key{0, 8}}, {key{0, 3}, key{0, 3}}, {key{0, 1}, key{0, 9}}},
		"a chain":   {{key{0, 1}, key{0, 3}}, {key{0, 3}, key{0, 5}}, {key{0, 5}, key{0, 7}}, {key{0, 7}, key{0, 9}}, {key{0, 9}, key{0, 9}}},
		"two of it": {{key{0, 1}, key{0, 3}}, {key{0, 1}, key{0, 3}}},
	} {
		var ranges []ruleRange
		for i, r := range list {
			ranges = append(ranges, ruleRange{r, int32(i)})
		}
		tree := newRangeTree(ranges, new(pauses))
		for _, k := range []key{
			{},
			{0, 1},
			{0, 2},
			{0, 3},
			{0, 4},
			{0, 5},
			{0, 6},
			{0, 7},
			{0, 8},
			{0, 9},
			{0, 10},
			{0, ^uint64(0) - 1},
			{0, ^uint64(0)},
			{1, 0},
			{1, 1},
			{1, 2},
			{^uint64(0), 0},
			{^uint64(0), ^uint64(0)},
		} {
			var want []int32
			for i, r := range list {
				if r.low.compare(k) <= 0 && k.compare(r.high) <= 0 {
					want = append(want, int32(i))
				}
			}
			got := slices.Concat(tree.appendLists(nil, k)...)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s: %v is in %v; want %v", name, k, got, want)
			}
		}
	}
}
