package rules

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/internal/vocabulary"
)

// A draft of a set's files is parsed with the lists and tables of the set, and reads no
// other file.
func TestDraftsReuseListsOfTheSet(t *testing.T) {
	const text = `[dicts]
bad : lists/bad.dat
[tables]
plans : plans.csv
[routes]
POST /api/{thing} : act=post
[rules]
rule : [direct] [uid @ bad] [] [result=2; return=1]
rule : [count] [act=post; uid=+] [time=60; count=table plans.limit by uid else 5] [result=2; return=2]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`
	o := Options{
		OpenDict:  func(_, path string) (*Dict, error) { return ParseDict(path, strings.NewReader("eve\n")) },
		OpenTable: func(_, path string) (*Table, error) { return ParseTable(path, strings.NewReader("uid,limit\nann,7\n")) },
	}
	set, findings := Parse([]Source{{"a.conf", []byte(text)}}, o)
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	if list := set.Routes(); len(list) != 1 || list[0].Text != "POST /api/{thing} : act=post" || list[0].Pos.Line != 6 {
		t.Errorf("routes: %v", list)
	}
	reuse := Options{OpenDict: set.OpenDict, OpenTable: set.OpenTable}
	draft, findings := Parse([]Source{{"a.conf", []byte(text + "# more\n")}}, reuse)
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	if draft.Dicts["bad"] != set.Dicts["bad"] || draft.Tables["plans"] != set.Tables["plans"] {
		t.Error("the draft has other lists or tables")
	}
	for _, name := range []string{"lists/bad.dat", "plans.csv"} {
		_, findings = Parse([]Source{{"a.conf", []byte(strings.Replace(text, name, "/etc/passwd", 1))}}, reuse)
		if !findings.HasErrors() || !strings.Contains(findings.Error(), "the rules in force do not have /etc/passwd in a.conf") {
			t.Errorf("another path: %v", findings)
		}
	}
	if _, err := set.OpenDict("b.conf", "lists/bad.dat"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another file: %v", err)
	}
}

// The vocabulary has the words of the grammar.
func TestWords(t *testing.T) {
	w := vocabulary.Language()
	for name, list := range map[string][]string{"rules": w.Sections, "leak": w.Methods, "gateway": w.Policies, "header": w.Sources, "lower": w.Modifiers, "ip": w.Derived, "leeway": w.Tokens.Words, "cookie": w.Tokens.Places, "ES256": w.Tokens.Algorithms, "expired": w.Tokens.Outcomes} {
		found := false
		for _, word := range list {
			found = found || word == name
		}
		if !found {
			t.Errorf("%q is not among %q", name, list)
		}
	}
	uses := make(map[string]vocabulary.Word)
	for _, word := range append(w.Thresholds, w.Outcomes...) {
		uses[word.Name] = word
	}
	if len(uses["burst"].Methods) != 1 || uses["result"].Methods != nil || !uses["return"].Required || uses["ban"].Required {
		t.Errorf("%+v", uses)
	}
}
