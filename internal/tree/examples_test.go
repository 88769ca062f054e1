package tree

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/internal/ruletest"
	"github.com/koalagate/koalagate/rules"
)

// accepted maps examples to the warning that their comments explain: gateways wait for
// turns only if their configuration says so, as the sample's does.
var accepted = map[string]string{"examples/partner-queue.conf": "W062"}

// Users copy the examples, so they have no other findings, not even warnings, and have
// the canonical layout.
func TestExamplesHaveNoFindings(t *testing.T) {
	files, err := filepath.Glob("examples/*.conf")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, path := range files {
		_, findings, err := reload.Files{Paths: []string{path}}.Load()
		findings = slices.DeleteFunc(findings, func(f rules.Finding) bool { return f.Code == accepted[path] })
		if err != nil || len(findings) > 0 {
			t.Errorf("%s: %v\n%v", path, err, findings)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		laid, _ := rules.Format(rules.Source{Name: path, Text: text})
		if diff := cmp.Diff(string(text), string(laid)); diff != "" {
			t.Errorf("%s is not in the canonical layout; run `koalagate fmt --write examples`:\n%s", path, diff)
		}
	}
}

// Every example has unit tests, which pass.
func TestExamplesPassTheirTests(t *testing.T) {
	files, err := filepath.Glob("examples/*.conf")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, path := range files {
		path = strings.TrimSuffix(path, ".conf") + "_test.yaml"
		text, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
			continue
		}
		cases, err := ruletest.Parse(path, text)
		if err != nil {
			t.Error(err)
			continue
		}
		result, err := cases.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if result.Failed() > 0 {
			var report strings.Builder
			result.WriteText(&report)
			t.Error(report.String())
		}
	}
}
