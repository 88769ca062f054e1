package exceptions

import (
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/rules"
)

// FuzzParse checks that any text in Redis is read or refused, and that what was read fits
// the rules or not, without a panic.
func FuzzParse(f *testing.F) {
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(`[rules]
rule : [token] [act=post; uid=+; ip=10.0.0.0/8] [time=60; count=2] [result=2; return=1]
rule : [direct] [uid=7] [] [result=2; return=2]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`)}}, rules.Options{})
	if findings.HasErrors() {
		f.Fatal(findings)
	}
	x := Exception{ID: "X4T2QK7MNB5A", Rule: 1, Identity: map[string]string{"act": "post", "uid": "ann", "ip": "10.0.0.1"}, What: Count, Count: 9, Until: time.Unix(1800000000, 0).UTC(), Author: "ops", Note: "more"}
	f.Add(x.place(), string(x.encode()))
	x.Rule, x.What, x.Count, x.Signature = 2, Deny, 0, "AAAA"
	f.Add(x.place(), string(x.encode()))
	f.Add("1 null", `{"id":"a","rule":1,"what":"allow","until":"9999-12-31T23:59:60Z"}`)
	f.Add(`1 {"uid@ip":""}`, `{"id":"a","rule":1,"identity":{"uid@ip":""},"what":"allow"}`)
	f.Fuzz(func(t *testing.T, place, text string) {
		x, err := parse(place, text)
		if err != nil {
			return
		}
		if again, err := parse(x.place(), string(x.encode())); err != nil && len(x.encode()) <= maxRecord || again.place() != place {
			t.Errorf("what was read is not what was written: %v, %+v", err, again)
		}
		resolved, _, err := x.resolve(set, nil)
		if err == nil && (resolved.Match.Rule == nil || strings.ContainsRune(resolved.ID, ' ')) {
			t.Errorf("%+v", resolved)
		}
		if _, isInvalid := err.(InvalidError); err != nil && !isInvalid { //nolint:errorlint // it is never wrapped
			t.Errorf("%v", err)
		}
		_ = x.verify(make([]byte, 32), "koala")
	})
}
