package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// full is a full disk.
type full struct{}

var errFull = errors.New("no space left on device")

func (full) Write([]byte) (int, error) { return 0, errFull }

// A lost output must not look like an empty one.
func TestFailedOutputIsAFailure(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.conf")
	text := "[rules]\nrule : [direct] [act=vote] [] [result=2; return=101]\n[result]\n0 : {\"Err_no\":0}\n1 : {\"Err_no\":0}\n2 : {\"Err_no\":10}\n"
	if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"version", "config print", "fmt " + rules, "fmt --check " + rules, "check --format json " + rules,
		"explain --rules " + rules + " act=vote", "explain --format json --rules " + rules + " act=vote",
	} {
		stderr := new(bytes.Buffer)
		p := program{args: strings.Fields(args), stdin: strings.NewReader(""), stdout: full{}, stderr: stderr}
		if code := p.run(); code != exitFailed || stderr.String() != "koalagate: writing the output: "+errFull.Error()+"\n" {
			t.Errorf("%s: exit code %d, %q; want %d and the reason", args, code, stderr, exitFailed)
		}
	}
}
