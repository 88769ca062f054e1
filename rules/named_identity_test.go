package rules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/rules"
)

// Parameters that name an identity lead to the identity of the requests that match, and
// all others are refused with the reason.
func TestIdentify(t *testing.T) {
	const file = `[rules]
rule : [count] [act=post; uid=+; path=/api{~}; bot!=+] [time=60; count=1] [result=0; return=1]
rule : [count] [ip=10.0.0.0/8; port=007] [time=60; count=1] [result=0; return=2]
rule : [count] [ip=10.0.0.1] [time=60; count=1] [result=0; return=3]
rule : [count] [path=/all{~}] [time=60; count=1] [result=0; return=4]
rule : [count] [n>5] [time=60; count=1] [result=0; return=5]
rule : [direct] [uid=666] [] [result=0; return=6]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
`
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(file)}}, rules.Options{})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	for _, c := range []struct {
		rule   int64
		params string
		want   string // the values of the identity, or the error
	}{
		{1, "act=post uid=ann", "[{act post} {uid ann}]"},
		{1, "uid=ann", "[{act post} {uid ann}]"},
		{1, "uid@client-ip=1.2.3.4", "[{act post} {uid@client-ip 1.2.3.4}]"},
		{1, "", "rule 1 counts by act, uid; missing parameters: uid"},
		{1, "act=read uid=ann", "rule 1 counts by act, uid; its condition act=post does not hold"},
		{1, "uid=ann path=/api", "rule 1 counts by act, uid; parameters that it does not count by: path"},
		{2, "ip=::ffff:10.1.2.3 port=007", "[{ip 10.1.2.3} {port 007}]"},
		{2, "ip=10.1.2.3", "[{ip 10.1.2.3} {port 007}]"},
		{2, "ip=11.1.2.3", "rule 2 counts by ip, port; its condition ip=10.0.0.0/8 does not hold"},
		{3, "", "[{ip 10.0.0.1}]"},
		{4, "", "[]"},
		{4, "path=/all", "rule 4 counts by no parameter; parameters that it does not count by: path"},
		{5, "n=+7", "rule 5 counts by n; its condition n>5 does not hold"},
		{5, "n=007", "[{n 7}]"},
		{6, "", "[{uid 666}]"},
	} {
		p := new(rules.Params)
		for _, entry := range strings.Fields(c.params) {
			name, value, _ := strings.Cut(entry, "=")
			p.SetNamed(name, value)
		}
		match, err := set.Rule(c.rule).Identify(p)
		got := fmt.Sprint(match.Values())
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("rule %d, %s: %s; want %s", c.rule, c.params, got, c.want)
		}
		if err != nil || !match.Rule.Counts() {
			continue
		}
		for _, v := range match.Values() {
			p.SetNamed(v.Name, v.Value)
		}
		p.Set("path", map[int64]string{1: "/api", 4: "/all"}[c.rule])
		var all rules.Matches
		set.Match(p, &all)
		found := false
		for i := range all.List {
			found = found || all.List[i].Rule == match.Rule && string(all.List[i].Identity) == string(match.Identity)
		}
		if !found {
			t.Errorf("rule %d, %s: a request does not have the identity", c.rule, c.params)
		}
	}
}

// Parameters are free unless the rule lists their values one by one.
func TestFreeParameters(t *testing.T) {
	for condition, want := range map[string]string{
		"uid=+": "[uid]", "uid=ann": "[]", "uid=ann,bob": "[]", "uid!=ann": "[uid]", "uid=7": "[]", "uid=7,9": "[]",
		"uid=7-9": "[uid]", "uid=192.0.2.1": "[]", "uid=192.0.2.0/24": "[uid]", "uid>3": "[uid]", "uid=192.0.2.*": "[uid]", "uid=ann{~}": "[]",
	} {
		text := "[rules]\nrule : [direct] [" + condition + "; act=post] [] [result=2; return=201]\n[result]\n0 : {\"Err_no\":0}\n1 : {\"Err_no\":0}\n2 : {\"Err_no\":10}\n"
		set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text)}}, rules.Options{})
		if findings.HasErrors() {
			t.Errorf("%s: %v", condition, findings)
			continue
		}
		if got := fmt.Sprint(set.Rules[0].Free()); got != want {
			t.Errorf("%s: %s; want %s", condition, got, want)
		}
	}
}
