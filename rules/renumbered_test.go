package rules

import (
	"strings"
	"testing"
)

func TestRenumbered(t *testing.T) {
	const (
		ask  = "rule : [count] [act=ask; uid=+] [time=60; count=5] [result=2; return=1]\n"
		list = "rule : [count] [act=list; uid=+] [time=60; count=5] [result=2; return=2]\n"
	)
	swap := strings.NewReplacer("return=1]", "return=2]", "return=2]", "return=1]")
	for name, c := range map[string]struct{ before, now, want string }{
		"the same":              {ask + list, ask + list, ""},
		"another order":         {ask + list, list + ask, ""},
		"another limit":         {ask, strings.Replace(ask, "count=5", "count=9", 1), ""},
		"another result":        {ask, strings.Replace(ask, "result=2", "result=1", 1), ""},
		"a value more":          {ask, strings.Replace(ask, "act=ask", "act=ask,post", 1), ""},
		"a new number":          {ask, ask + list, ""},
		"a number gone":         {ask + list, ask, ""},
		"conditions turned":     {ask, strings.Replace(ask, "act=ask; uid=+", "uid=+; act=ask", 1), ""},
		"absence asked for":     {ask, strings.Replace(ask, "uid=+", "uid=+; bot!=+", 1), ""},
		"another method":        {ask, strings.Replace(ask, "[count]", "[leak]", 1), "rules.conf:2:1: warning W019: return=1 was a count rule and is a leak rule; give the rule another number, unless this is meant"},
		"another parameter":     {ask, strings.Replace(ask, "uid", "ip", 1), "rules.conf:2:1: warning W019: return=1 counted by act, uid and counts by act, ip; give the rule another number, unless this is meant"},
		"all together":          {ask, strings.Replace(ask, "act=ask; uid=+", "act=ask{~}; uid=+{~}", 1), "return=1 counted by act, uid and counts by no parameter"},
		"numbers were swapped":  {ask + list, swap.Replace(ask + list), "rules.conf:2:1: warning W019: return=2 was the number of the rule that is 1 now; let a rule keep its number: counters and reports are kept by it\nrules.conf:3:1: warning W019: return=1 was"},
		"numbers have moved up": {ask + list, strings.Replace(ask, "act=ask", "act=new", 1) + strings.Replace(ask, "return=1", "return=2", 1), "rules.conf:2:1: warning W019: return=1 was the number of the rule that is 2 now"},
		"a direct rule counts":  {"rule : [direct] [act=ask; uid=+] [] [result=2; return=1]\n", ask, "return=1 was a direct rule and is a count rule"},
		"other direct rules":    {"rule : [direct] [act=ask] [] [result=2; return=1]\n", "rule : [direct] [uid=7] [] [result=2; return=1]\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			before, _ := parseAny([]byte("[rules]\n" + c.before + strings.TrimPrefix(entries, "\n")))
			now, _ := parseAny([]byte("[rules]\n" + c.now + strings.TrimPrefix(entries, "\n")))
			got := Renumbered(before, now)
			if text := got.Error(); !strings.Contains(text, c.want) || c.want == "" && text != "" {
				t.Errorf("got %s\nwant %s", text, c.want)
			}
			if first := Renumbered(nil, now); len(first) > 0 {
				t.Errorf("the first generation: %v", first)
			}
		})
	}
}
