package rules

import (
	"fmt"
	"strings"
	"testing"
)

// TestListsCoverFewerLists checks that a direct rule on several word lists makes rules on
// some of them unreachable.
func TestListsCoverFewerLists(t *testing.T) {
	for _, c := range []struct {
		above, below string
		covered      bool
	}{
		{"a @ list1,list2", "a @ list2", true},
		{"a @ list2,list1", "a @ list1,list2", true},
		{"a @ list1", "a @ list1,list2", false},
		{"a !@ list1", "a !@ list1,list2", true},
		{"a !@ list1,list2", "a !@ list2", false},
		{"a @ list1,list2", "a !@ list2", false},
	} {
		_, findings := Parse([]Source{{"rules.conf", fmt.Appendf(nil, "[dicts]\nlist1 : 1\nlist2 : 2\n[rules]\nrule : [direct] [%s] [] [result=2; return=1]\nrule : [direct] [%s] [] [result=2; return=2]\n%s", c.above, c.below, entries)}},
			Options{OpenDict: func(_, path string) (*Dict, error) { return ParseDict(path, strings.NewReader(path)) }})
		covered := false
		for _, f := range findings {
			covered = covered || f.Code == warnUnreachable.ID
		}
		if covered != c.covered {
			t.Errorf("%s above %s: covered is %v, want %v", c.above, c.below, covered, c.covered)
		}
	}
}

// TestMatchOfListsAllocatesNothing checks conditions on several word lists.
func TestMatchOfListsAllocatesNothing(t *testing.T) {
	set := ruleSet(t, "uid @ vip,nets", "uid !@ vip,nets", "uid !@ vip")
	for _, uid := range []string{"7", "10.1.1.1", "nobody"} {
		p := MakeParams(map[string]string{"uid": uid})
		var m Matches
		set.Match(p, &m)
		if n := testing.AllocsPerRun(100, func() { set.Match(p, &m) }); n != 0 || len(m.List) == 0 {
			t.Errorf("uid=%s: %v allocations and %d matches; want none and some", uid, n, len(m.List))
		}
	}
}

func BenchmarkMatchLists(b *testing.B) {
	for _, c := range []struct{ name, condition string }{
		{"one list", "uid @ vip"}, {"not in one list", "uid !@ nets"}, {"several lists", "uid @ nets,vip"},
	} {
		b.Run(c.name, func(b *testing.B) {
			set := ruleSet(b, c.condition)
			p := MakeParams(map[string]string{"uid": "7"})
			var m Matches
			b.ReportAllocs()
			for b.Loop() {
				set.Match(p, &m)
			}
		})
	}
}
