package operations

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/explain"
	"github.com/koalagate/koalagate/rules"
)

const manyRules = `[params]
uid : header X-User-Id
plan : header X-Plan
[rules]
rule : [count] [uid=+] [time=60; count=5] [result=2; return=1]
rule : [count] [uid=+; plan=free] [time=60; count=5] [result=2; return=2]
rule : [count] [uid=+; plan=free; method=POST] [time=60; count=5] [result=2; return=3]
rule : [count] [uid=+] [time=60; count=5] [result=2; return=4; until=2020-01-01]
rule : [count] [uid=+] [time=60; count=param limit else unlimited] [result=2; return=5]
rule : [count] [uid=+; response.status=500] [time=60; count=5; settle=60] [result=2; return=6]
rule : [direct] [uid=eve] [] [result=2; return=7]
rule : [count] [uid=+] [time=60; count=5] [result=2; return=8; shadow=1]
[result]
0 : {}
1 : {}
2 : {"Err_no":10}
`

// The questions why and explain name the same rules as met, and the same decider.
func TestWhyAndExplainAgree(t *testing.T) {
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(manyRules)}}, rules.Options{})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	d := New(Options{Engine: engine.New(set)})
	for user, near := range map[string][]int64{"ann": {2, 4, 5, 7}, "eve": {2, 4, 5}} {
		q := Question{Request: &Request{Target: "/", Peer: "192.0.2.1", Headers: map[string][]string{"X-User-Id": {user}, "X-Plan": {"paid"}}}}
		why, err := d.Why(t.Context(), &q)
		if err != nil {
			t.Fatal(err)
		}
		report, err := d.Explain(t.Context(), &Explanation{Question: q})
		if err != nil {
			t.Fatal(err)
		}
		var want, got, kept []int64
		for i := range report.Rules {
			if r := &report.Rules[i]; r.Outcome != explain.NotMet {
				want = append(want, r.Return)
			}
		}
		for _, r := range why.Rules {
			if r.Matched {
				got = append(got, r.Rule)
			} else {
				kept = append(kept, r.Rule)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
			t.Errorf("rules that %s meets (-explain +why):\n%s", user, diff)
		}
		if diff := cmp.Diff(near, kept); diff != "" {
			t.Errorf("rules that one thing keeps from %s (-want +why):\n%s", user, diff)
		}
		if report.Decision.Verdict != why.Verdict || report.Decision.Decider != why.Decider {
			t.Errorf("%s: explain answers %+v, why %s by rule %d", user, report.Decision, why.Verdict, why.Decider)
		}
	}
}
