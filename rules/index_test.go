package rules

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// FuzzIndexIsAPlainWalk holds that the index finds the rules that a walk over
// all of them finds, in the same order.
func FuzzIndexIsAPlainWalk(f *testing.F) {
	for seed := range uint64(50) {
		f.Add(seed)
	}
	conditions := []string{
		"a=1", "a=1,2", `a="1",3`, "a=1-2", "a!=1", "a=+", "a!=+", "a=10.0.0.1,1", "a>1", "a @ vip",
		"b=1", "b=2,x", "b=+", "c=1", "c=x", "c!=x,1", "d=1,2,3,4", "e=1",
	}
	words := []string{"", "1", " 1", "2", "3", "x", "7", "10.0.0.1", "01"}
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
				if r.Explain(p) == nil {
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

func TestRulesAreFoundByTheirRarestWord(t *testing.T) {
	conditions := make([]string, 1000)
	for i := range conditions {
		conditions[i] = fmt.Sprintf("door=extauthz; act=act%d,other%d; uid=+", i, i)
	}
	conditions[500] = "uid=+"
	set := ruleSet(t, conditions...)
	var m Matches
	p := MakeParams(map[string]string{"door": "extauthz", "act": "other7", "uid": "1"})
	m.read(&set.index, p)
	m.look(&set.index)
	looked := 0
	for m.next() >= 0 {
		looked++
	}
	if looked != 2 {
		t.Errorf("%d rules are looked at; want the one for this act, and the one for all", looked)
	}
}
