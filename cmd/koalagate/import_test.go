package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// runs runs a command and returns its exit code and its outputs.
func runs(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	p := program{args: args, stdin: strings.NewReader(""), stdout: &out, stderr: &errs}
	return p.run(), out.String(), errs.String()
}

// Limits of every recorded shape become rule files that check accepts. Each limit is a rule
// or a line on the standard error; package ratelimit compares what the rules decide.
func TestImportedLimitsPassTheCheck(t *testing.T) {
	recorded, err := filepath.Glob("../../ratelimit/testdata/recorded/*.json")
	if err != nil || len(recorded) < 12 {
		t.Fatalf("%d recordings, %v; want at least 12", len(recorded), err)
	}
	for _, path := range recorded {
		t.Run(filepath.Base(path), func(t *testing.T) {
			var r struct{ Config, Limits []string }
			text, err := os.ReadFile(path)
			if err == nil {
				err = json.Unmarshal(text, &r)
			}
			if err != nil {
				t.Fatal(err)
			}
			folder := t.TempDir()
			args := []string{"import", "envoyproxy-ratelimit", "--merge"}
			for i, config := range r.Config {
				name := filepath.Join(folder, strconv.Itoa(i)+".yaml")
				if err := os.WriteFile(name, []byte(config), 0o600); err != nil {
					t.Fatal(err)
				}
				args = append(args, name)
			}
			code, rules, problems := runs(t, args...)
			missing := strings.Count(problems, "not converted: ")
			if (code == 0) != (missing == 0) || strings.Count(rules, "\nrule : ")+missing != len(r.Limits) {
				t.Errorf("exit code %d, %d rules, %d problems; want %d in total", code, strings.Count(rules, "\nrule : "), missing, len(r.Limits))
			}
			file := filepath.Join(folder, "rules.conf")
			if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
				t.Fatal(err)
			}
			if code, report, errs := runs(t, "check", "--allow-empty-rules", file); code != 0 {
				t.Errorf("check ends with %d:\n%s%s\n%s", code, report, errs, rules)
			}
		})
	}
}
