package rules_test

import (
	"fmt"
	"strings"

	"github.com/koalagate/koalagate/rules"
)

// Parse returns the rule set and all findings. The set is nil if one of them is an
// error.
func ExampleParse() {
	const text = `[rules]
rule : [cuont] [act=comment; uid=+] [time=90; count=4;] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text)}}, rules.Options{})
	fmt.Println(set == nil, findings.HasErrors())
	for _, f := range findings {
		fmt.Println(f.Code, f.Position, f.Suggestion)
	}
	// Output:
	// true true
	// E012 rules.conf:2:9 count
}

// Match returns the rules that match the parameters of a request, highest priority
// first, with the values that their counters belong to.
func ExampleSet_Match() {
	const text = `[dicts]
vip : lists/vip.dat
[rules]
rule : [direct] [uid @ vip] [] [result=1; return=101]
rule : [count] [act=comment; uid=+] [time=90; count=4;] [result=2; return=201]
rule : [count] [act=login; uid=+] [time=60; count=9;] [result=2; return=202]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
[end]
`
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text)}}, rules.Options{
		OpenDict: func(_, path string) (*rules.Dict, error) {
			return rules.ParseDict(path, strings.NewReader("ann\nbob\n"))
		},
	})
	if findings.HasErrors() {
		fmt.Println(findings)
		return
	}
	var matches rules.Matches // may be used again
	set.Match(rules.MakeParams(map[string]string{"act": "comment", "uid": "ann"}), &matches)
	for i := range matches.List {
		m := &matches.List[i]
		fmt.Println(m.Rule.Return, m.Rule.Method, m.Rule.Result.Verdict())
		for _, p := range m.Values() {
			fmt.Printf("\t%s is %s\n", p.Name, p.Value)
		}
	}
	// Output:
	// 101 direct allow
	// 201 count deny
	// 	act is comment
	// 	uid is ann
}
