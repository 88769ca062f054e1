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
		"an extra value":        {ask, strings.Replace(ask, "act=ask", "act=ask,post", 1), ""},
		"a new number":          {ask, ask + list, ""},
		"a removed number":      {ask + list, ask, ""},
		"conditions turned":     {ask, strings.Replace(ask, "act=ask; uid=+", "uid=+; act=ask", 1), ""},
		"an absent parameter":   {ask, strings.Replace(ask, "uid=+", "uid=+; bot!=+", 1), ""},
		"another method":        {ask, strings.Replace(ask, "[count]", "[leak]", 1), "rules.conf:2:1: warning W019: return=1 was a count rule and is now a leak rule; give the rule another number, unless this is intended"},
		"another parameter":     {ask, strings.Replace(ask, "uid", "ip", 1), "rules.conf:2:1: warning W019: return=1 counted by act, uid and now counts by act, ip; give the rule another number, unless this is intended"},
		"all together":          {ask, strings.Replace(ask, "act=ask; uid=+", "act=ask{~}; uid=+{~}", 1), "return=1 counted by act, uid and now counts by no parameter"},
		"numbers were swapped":  {ask + list, swap.Replace(ask + list), "rules.conf:2:1: warning W019: return=2 was the number of the rule that is now 1; keep the number of a rule, because counters and reports are kept by number\nrules.conf:3:1: warning W019: return=1 was"},
		"numbers have moved up": {ask + list, strings.Replace(ask, "act=ask", "act=new", 1) + strings.Replace(ask, "return=1", "return=2", 1), "rules.conf:2:1: warning W019: return=1 was the number of the rule that is now 2"},
		"a direct rule counts":  {"rule : [direct] [act=ask; uid=+] [] [result=2; return=1]\n", ask, "return=1 was a direct rule and is now a count rule"},
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
