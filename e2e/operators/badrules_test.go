package operators_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// The service does not start with an invalid rule file: it prints the position of
// the error and a fix, and its exit status is not 0.
func TestServeRefusesBadRules(t *testing.T) {
	const results = "[result]\n0 : {\"Err_no\":0}\n1 : {\"Err_no\":0}\n2 : {\"Err_no\":10}\n"
	for _, c := range []struct {
		name, rules string
		at, fix     string // `line:column`, and a word in the hint
	}{
		{
			"unknown method",
			"[rules]\nrule : [cuont] [a=+] [time=1; count=1] [result=2; return=1]\n" + results,
			"2:9", "count",
		},
		{
			"unclosed bracket",
			"[rules]\nrule : [count] [a=+ [time=1; count=1] [result=2; return=1]\n" + results,
			"2:16", "]",
		},
		{
			"count 0",
			"[rules]\nrule : [count] [a=+] [time=1; count=0] [result=2; return=1]\n" + results,
			"2:37", "direct",
		},
		{
			"missing result entry",
			"[rules]\nrule : [count] [a=+] [time=1; count=1] [result=7; return=1]\n" + results,
			"2:48", "7",
		},
		{
			"duplicate return",
			"[rules]\nrule : [count] [a=+] [time=1; count=1] [result=2; return=1]\nrule : [count] [b=+] [time=1; count=1] [result=2; return=1]\n" + results,
			"3:58", "return",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := rig.NewFixture(t)
			k := rig.Must(h.Stage.Serve(rig.Binary, nil, "--rules", h.File("rules.conf", c.rules)))(t)
			if !k.Ended(30 * time.Second) {
				t.Fatal("the service started with an invalid rule file")
			}
			finding := regexp.MustCompile(`rules\.conf:` + c.at + `: error E[0-9]+: .*\n.*\n +\^`).FindString(k.Log())
			if finding == "" || !strings.Contains(finding, c.fix) {
				t.Errorf("got\n%s\nwant a finding at %s that contains %q, with its line and a caret", k.Log(), c.at, c.fix)
			}
			if k.ExitCode() != 1 {
				t.Errorf("exit status %d, want 1", k.ExitCode())
			}
		})
	}
}
