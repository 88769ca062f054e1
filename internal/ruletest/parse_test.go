package ruletest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const oneCase = "rules: rules.conf\ncases:\n  - name: one\n    steps:\n      - "

func TestParseRejectsInvalidFiles(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"an empty file", "", "c.yaml: the file is empty"},
		{"no YAML", "a: [", "c.yaml: yaml: line 1"},
		{"a list", "- a", "c.yaml:1: want a case file as keys with values"},
		{"two documents", "rules: a\ncases: []\n---\n", "c.yaml: want one YAML document"},
		{"no rules", "cases: []", "c.yaml:1: rules is missing"},
		{"no cases", "rules: a", "c.yaml:1: cases is missing"},
		{"no case", "rules: a\ncases: []", "c.yaml:2: there are no cases"},
		{"cases of another kind", "rules: a\ncases: 7", "c.yaml:2: want a list of cases"},
		{"an unknown key", "rule: a", `c.yaml:1: unknown key "rule" of a case file; did you mean "rules"?`},
		{"a key twice", "rules: a\nrules: b", `c.yaml:2: the key "rules" of a case file occurs twice`},
		{"a key that is no word", "[a]: b", "c.yaml:1: a key of a case file is not a word"},
		{"an unknown default door", "rules: a\ndoor: envoy\ncases: []", `c.yaml:2: unknown door "envoy"; want extauthz`},
		{"null for a value", "rules: a\nstart:\ncases: []", "c.yaml:2: want one value"},
		{"a case without a name", "rules: a\ncases: [{steps: []}]", "c.yaml:2: the case has no name"},
		{"a case without steps", "rules: a\ncases: [{name: x}]", `c.yaml:2: the case "x" has no steps`},
		{"a case with no step", "rules: a\ncases: [{name: x, steps: []}]", `c.yaml:2: the case "x" has no steps`},
		{"a name twice", "rules: a\ncases:\n  - &x {name: x, steps: [{params: {}, expect: allow}]}\n  - *x\n", `c.yaml:3: another case has the name "x"`},
		{"nothing expected", oneCase + "{params: {a: 1}}", "c.yaml:5: the step expects nothing"},
		{"an unknown verdict", oneCase + "{params: {a: 1}, expect: denied}", `c.yaml:5: unknown verdict "denied"`},
		{"an unknown field", oneCase + "{params: {a: 1}, expect: {verdct: deny}}", `c.yaml:5: unknown key "verdct" of expect; did you mean "verdict"?`},
		{"a field that is no number", oneCase + "{params: {a: 1}, expect: {remaining: few}}", `c.yaml:5: invalid number "few"`},
		{"a time without a unit", oneCase + "{params: {a: 1}, expect: {retry: 60}}", `c.yaml:5: invalid retry "60"; want a time with a unit`},
		{"a request without a method", oneCase + "{request: /a, expect: allow}", `c.yaml:5: invalid request "/a"; want METHOD TARGET`},
		{"headers without a request", oneCase + "{headers: {a: b}, expect: allow}", "c.yaml:5: headers, a peer"},
		{"an unknown door", oneCase + "{door: nginx, expect: allow}", `c.yaml:5: unknown door "nginx"`},
		{"a peer that is no address", oneCase + "{request: GET /, peer: ann, expect: allow}", `c.yaml:5: invalid peer "ann"`},
		{"an unknown operation", oneCase + "{params: {a: 1}, op: peek}", `c.yaml:5: unknown op "peek"; want take, browse, update, refund, settle or renew`},
		{"a settlement without a receipt", oneCase + "{op: settle, used: 5}", "c.yaml:5: receipt is missing"},
		{"a settlement that expects something", oneCase + "{op: settle, receipt: a, expect: allow}", "c.yaml:5: a step with op: settle expects nothing"},
		{"a renewal with hits", oneCase + "{op: renew, receipt: a, used: 5}", "c.yaml:5: op: renew takes neither"},
		{"a receipt of a look", oneCase + "{params: {a: 1}, op: browse, receipt: a, expect: allow}", "c.yaml:5: only a take has a receipt"},
		{"a receipt of several requests", oneCase + "{params: {a: 1}, times: 2, receipt: a, expect: allow}", "c.yaml:5: receipt names the receipt of one request"},
		{"used hits that are no number", oneCase + "{params: {a: 1}, used: many, expect: allow}", `c.yaml:5: invalid number "many"`},
		{"an invalid after", oneCase + "{params: {a: 1}, after: 5, expect: allow}", `c.yaml:5: invalid after: "5"`},
		{"after into the past", oneCase + "{params: {a: 1}, after: -5s, expect: allow}", `c.yaml:5: invalid after: "-5s"`},
		{"after and at", oneCase + "{params: {a: 1}, after: 5s, at: 2026-06-01, expect: allow}", "c.yaml:5: invalid after"},
		{"too many hits", oneCase + "{params: {a: 1}, hits: -1, expect: allow}", `c.yaml:5: invalid number "-1"`},
		{"times of 0", oneCase + "{params: {a: 1}, times: 0, expect: allow}", `c.yaml:5: invalid number "0"; want 1 … 1000000`},
		{"metadata without a path", oneCase + "{request: GET /, metadata: {a: b}, expect: allow}", `c.yaml:5: invalid metadata "a"; want NAMESPACE PATH`},
		{"a parameter that is a list", oneCase + "{params: {a: [1]}, expect: allow}", "c.yaml:5: want one value"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Parse("c.yaml", []byte(c.text)); err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v; want %s", err, c.want)
			}
		})
	}
}

func TestPathsAreRelativeToTheCaseFile(t *testing.T) {
	f, err := Parse(filepath.Join("tests", "c.yaml"), []byte("rules: [../a.conf, /b.conf]\ndict_root: lists\ncases: [{name: x, steps: [{params: {a: 1}, expect: allow}]}]"))
	if err != nil {
		t.Fatal(err)
	}
	if f.Rules[0] != "a.conf" || f.Rules[1] != "/b.conf" || f.DictRoot != filepath.Join("tests", "lists") {
		t.Errorf("got %q and %q", f.Rules, f.DictRoot)
	}
}

// FuzzParse checks that any text is a case file or has an error with its path.
func FuzzParse(f *testing.F) {
	examples, err := filepath.Glob("../../examples/*_test.yaml")
	if err != nil || len(examples) < 5 {
		f.Fatalf("%d examples, %v", len(examples), err)
	}
	for _, path := range examples {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("rules: a\ncases: &c\n  - name: x\n    steps: *c\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Parse("c.yaml", text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "c.yaml:") {
				t.Errorf("the error does not name the file: %v", err)
			}
			return
		}
		if len(file.Rules) == 0 || len(file.Cases) == 0 || len(file.Cases[0].Steps) == 0 {
			t.Errorf("an incomplete file: %+v", file)
		}
	})
}
