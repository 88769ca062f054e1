package ruletest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runText runs a case with steps, in a rule file with one rule.
func runText(t *testing.T, rule, steps string) *Result {
	t.Helper()
	dir := t.TempDir()
	text := "[rules]\n" + rule + "[result]\n0 : {}\n1 : {}\n2 : {\"Err_no\":10}\n"
	if err := os.WriteFile(filepath.Join(dir, "rules.conf"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := Parse(filepath.Join(dir, "c.yaml"), []byte("rules: rules.conf\ncases:\n  - name: one\n    steps: "+steps+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	result, err := file.Run(t.Context())
	if err != nil || result.Err != nil {
		t.Fatal(err, result)
	}
	return result
}

func TestStepsOnReceiptsFail(t *testing.T) {
	const request = "{params: {uid: 7}, receipt: a, expect: allow}"
	for name, c := range map[string]struct{ steps, want string }{
		"a receipt that no step names":  {"[" + request + ", {op: settle, receipt: b}]", `no step before names its receipt "b"`},
		"a receipt that is settled":     {"[" + request + ", {op: settle, receipt: a, times: 2}]", `the receipt "a": it is settled already`},
		"a renewal of a receipt's end":  {"[" + request + ", {op: renew, receipt: a, after: 2h}]", `the receipt "a": it is settled already, or has expired`},
		"a request without a receipt":   {"[{params: {uid: 7}, times: 2, expect: allow}, {params: {uid: 7}, receipt: a, expect: deny}]", "the request has no receipt"},
		"a rule that keeps no receipts": {"[{params: {act: read}, receipt: a, expect: allow}]", "the request has no receipt"},
	} {
		t.Run(name, func(t *testing.T) {
			result := runText(t, "rule : [hold] [uid=+] [time=60; count=2] [result=2; return=201]\n", c.steps)
			if f := result.Cases[0].Failure; f == nil || f.Err == nil || !strings.Contains(f.Err.Error(), c.want) {
				t.Errorf("got %+v; want %s", f, c.want)
			}
		})
	}
}

func TestReceiptsAreRenewedAndSettled(t *testing.T) {
	result := runText(t, "rule : [hold] [uid=+] [time=60; count=1] [result=2; return=201]\n", `
      - {params: {uid: 7}, receipt: a, expect: allow}
      - {op: renew, receipt: a, after: 50s}
      - {params: {uid: 7}, after: 50s, expect: deny}
      - {op: settle, receipt: a}
      - {params: {uid: 7}, times: 3, used: 1, expect: allow}`)
	if f := result.Cases[0].Failure; f != nil {
		t.Errorf("step %d: %v %+v", f.Step, f.Err, f.Wrong)
	}
}
