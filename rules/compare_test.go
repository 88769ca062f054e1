package rules

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// describeChanges returns the changes in one line.
func describeChanges(c *Changes) string {
	var parts []string
	for _, r := range c.Added {
		parts = append(parts, fmt.Sprintf("+%d", r.Return))
	}
	for _, r := range c.Removed {
		parts = append(parts, fmt.Sprintf("-%d", r.Return))
	}
	for _, r := range c.Changed {
		parts = append(parts, fmt.Sprintf("%d: %s", r.After.Return, strings.Join(r.Parts, ", ")))
	}
	for _, l := range c.Lists {
		parts = append(parts, fmt.Sprintf("list %s +%d -%d", l.Name, l.Added, l.Removed))
	}
	for _, n := range c.Results {
		parts = append(parts, fmt.Sprintf("result %d", n))
	}
	for name, changed := range map[string]bool{"order": c.Reordered, "params": c.Params, "routes": c.Routes, "zone": c.Zone} {
		if changed {
			parts = append(parts, name)
		}
	}
	return strings.Join(parts, "; ")
}

func TestCompare(t *testing.T) {
	const (
		ask    = "rule : [count] [act=ask; uid=+] [time=60; count=5] [result=2; return=1]\n"
		list   = "rule : [count] [act=list; uid=+] [time=60; count=5] [result=2; return=2]\n"
		bad    = "rule : [direct] [uid@bad] [] [result=2; return=3]\n"
		params = "[params]\nuid : header x-user-id\n"
		routes = "[routes]\nGET /a : act=ask\nGET /b : act=list\n"
	)
	lists := map[string]string{"old": "[dicts]\nbad : old.list\n", "new": "[dicts]\nbad : new.list\n", "same": "[dicts]\nbad : same.list\n"}
	content := map[string]string{"old.list": "ann\nbob\n", "new.list": "bob\ncleo\ndora\n", "same.list": "bob\n# again\nann\n"}
	text := func(parts ...string) string {
		var head, rest strings.Builder
		for _, p := range parts {
			if strings.HasPrefix(p, "rule") {
				rest.WriteString(p)
			} else {
				head.WriteString(p)
			}
		}
		return head.String() + "[rules]\n" + rest.String() + strings.TrimPrefix(entries, "\n")
	}
	parse := func(text string) *Set {
		set, findings := Parse([]Source{{Name: "rules.conf", Text: []byte(text)}}, Options{Timezone: "UTC", OpenDict: func(_, path string) (*Dict, error) {
			return ParseDict(path, strings.NewReader(content[path]))
		}})
		if findings.HasErrors() {
			t.Fatalf("%s\n%v", text, findings)
		}
		return set
	}
	for name, c := range map[string]struct{ before, now, want string }{
		"nothing":             {text(ask), text(ask), ""},
		"comments":            {text(ask), "# new\n" + text(ask), ""},
		"a rule added":        {text(ask), text(ask, list), "+2"},
		"a rule removed":      {text(ask, list), text(list), "-1"},
		"a threshold":         {text(ask), text(strings.Replace(ask, "count=5", "count=10", 1)), "1: count 5 → 10"},
		"a method":            {text(ask), text(strings.Replace(ask, "[count]", "[leak]", 1)), "1: method count → leak"},
		"conditions":          {text(ask), text(strings.Replace(ask, "ask", "post", 1)), "1: conditions [act=ask;uid=+] → [act=post;uid=+]"},
		"order of conditions": {text(ask), text(strings.Replace(ask, "act=ask; uid=+", "uid=+; act=ask", 1)), ""},
		"a result":            {text(ask), text(strings.Replace(ask, "result=2", "result=1", 1)), "1: result 2 → 1"},
		"shadow":              {text(ask), text(strings.Replace(ask, "return=1", "return=1; shadow=1", 1)), "1: shadow false → true"},
		"order":               {text(ask, list), text(list, ask), "order"},
		"an entry":            {text(ask), strings.Replace(text(ask), `2 : {"Err_no":10`, `2 : {"Err_no":11`, 1), "result 2"},
		"a list":              {text(lists["old"], bad), text(lists["new"], bad), "list bad +2 -1"},
		"an equal list":       {text(lists["old"], bad), text(lists["same"], bad), ""},
		"a new list":          {text(ask), text(lists["old"], ask, bad), "+3; list bad +2 -0"},
		"params":              {text(ask), text(params, ask), "params"},
		"routes":              {text(ask, routes), text(ask, strings.Replace(routes, "/b", "/c", 1)), "routes"},
		"order of routes":     {text(ask, routes), text(ask, "[routes]\nGET /b : act=list\nGET  /a :  act=ask\n"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			c1 := Compare(parse(c.before), parse(c.now))
			if got := describeChanges(c1); got != c.want || c1.Empty() != (c.want == "") {
				t.Errorf("got %q (empty: %v); want %q", got, c1.Empty(), c.want)
			}
		})
	}
}

// A set of 100,000 rules is compared in well under a second.
func TestCompareIsFastForManyRules(t *testing.T) {
	var text strings.Builder
	text.WriteString("[rules]\n")
	const many = 100_000
	for i := range many {
		fmt.Fprintf(&text, "rule : [count] [act=a%d; uid=+] [time=60; count=5] [result=2; return=%d]\n", i, i+1)
	}
	text.WriteString(strings.TrimPrefix(entries, "\n"))
	before, _ := parseAny([]byte(text.String()))
	now, _ := parseAny([]byte(strings.Replace(text.String(), "count=5", "count=6", 1)))
	start := time.Now()
	c := Compare(before, now)
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("it took %v", took)
	} else {
		t.Logf("it took %v", took)
	}
	if len(c.Changed) != 1 || len(c.Added)+len(c.Removed) != 0 {
		t.Errorf("%d changed, %d added, %d removed; want one change", len(c.Changed), len(c.Added), len(c.Removed))
	}
}
