package rules

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// sameMeaning compares sets by everything except their texts and positions.
var sameMeaning = cmp.Options{
	cmp.AllowUnexported(Set{}, Rule{}, Threshold{}, ParamSource{}, Condition{}, pattern{}, interval[int64]{}, routeTree{}, node{}, route{}, routeVariable{}),
	cmpopts.IgnoreFields(Set{}, "Sources", "Hash", "index"),
	cmpopts.IgnoreTypes(Position{}, span{}),
	cmp.Comparer(func(a, b *Dict) bool { return a == b || a != nil && b != nil && a.hash == b.hash }),
	cmp.Comparer(func(a, b *Table) bool { return a == b || a != nil && b != nil && a.hash == b.hash }),
	cmp.Comparer(func(a, b *JWT) bool {
		return a == b || a != nil && b != nil && a.Name == b.Name && a.Terms() == b.Terms() && a.isUsed == b.isUsed && cmp.Equal(a.Claims, b.Claims)
	}),
	cmp.Comparer(func(a, b *globs) bool { return a == b || a != nil && b != nil && slices.Equal(a.patterns, b.patterns) }),
	cmp.Comparer(func(a, b *time.Location) bool { return a.String() == b.String() }),
	cmpopts.EquateComparable(interval[netip.Addr]{}),
}

// parseAny parses a text with options for which every word list exists.
func parseAny(text []byte) (*Set, Findings) {
	return Parse([]Source{{"rules.conf", text}}, Options{
		OpenDict: func(_, path string) (*Dict, error) {
			return ParseDict(path, strings.NewReader("7\n10.0.0.0/8\n"+path))
		},
		OpenTable: func(_, path string) (*Table, error) {
			return ParseTable("table.csv", strings.NewReader("tenant,rate,burst,span,month,tier\n7,5,6,7,8,"+path+"\n"))
		},
		OpenKeys: func(_, path string) ([]byte, error) { return []byte(path), nil }, OpenToken: openToken,
	})
}

// checkFormat checks that formatting a text does not change its meaning or its findings,
// and that formatting it again changes nothing.
func checkFormat(t *testing.T, text []byte) {
	t.Helper()
	laid, findings := Format(Source{"rules.conf", text})
	if findings.HasErrors() {
		if !bytes.Equal(laid, text) {
			t.Fatalf("a file with errors was changed: %v", findings)
		}
		return
	}
	again, findings := Format(Source{"rules.conf", laid})
	if diff := cmp.Diff(string(laid), string(again)); diff != "" || findings.HasErrors() {
		t.Fatalf("laid out twice it differs: %v\n%s", findings, diff)
	}
	before, had := parseAny(text)
	after, has := parseAny(laid)
	if diff := cmp.Diff(before, after, sameMeaning); diff != "" {
		t.Fatalf("the layout of %q is %q, which means something else (-before +after):\n%s", text, laid, diff)
	}
	if slices.ContainsFunc(had, func(f Finding) bool { return f.Code == warnMore.ID }) {
		return // other findings may be shown
	}
	if diff := cmp.Diff(lasting(had), lasting(has)); diff != "" {
		t.Fatalf("the layout of %q is %q, with other findings (-before +after):\n%s", text, laid, diff)
	}
}

// lasting returns the sorted codes of the findings that formatting does not fix. They
// are sorted because brackets and words are not checked in the order of positions.
func lasting(findings Findings) []string {
	var codes []string
	for _, f := range findings {
		if f.Code != warnOldSpelling.ID && f.Message != "superfluous semicolon" {
			codes = append(codes, f.Code)
		}
	}
	slices.Sort(codes)
	return codes
}

// FuzzFormat checks that formatting does not change the meaning of a file, and that
// formatting it again changes nothing.
func FuzzFormat(f *testing.F) {
	for _, pattern := range []string{"testdata/good/*.conf", "testdata/bad/*.conf", "testdata/format/*.conf"} {
		for _, path := range files(f, pattern, 1) {
			if text, err := os.ReadFile(path); err == nil && len(text) < 10_000 {
				f.Add(text)
			}
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) { checkFormat(t, text) })
}

func TestFormatKeepsTheMeaning(t *testing.T) {
	for _, path := range files(t, "testdata/good/*.conf", 10) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if _, findings := Format(Source{path, text}); findings.HasErrors() {
				t.Fatalf("a good file has errors: %v", findings)
			}
			checkFormat(t, text)
			for _, other := range [][]byte{
				append([]byte(byteOrderMark), text...),
				regexp.MustCompile(`\r?\n`).ReplaceAll(text, []byte("\r\n")),
				regexp.MustCompile(`([][;,])`).ReplaceAll(text, []byte(" \t$1\u00a0 ")),
			} {
				checkFormat(t, other)
			}
		})
	}
}

// TestFormatGolden formats X.conf and compares the result with X.golden.
func TestFormatGolden(t *testing.T) {
	for _, path := range files(t, "testdata/format/*.conf", 5) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			laid, findings := Format(Source{filepath.Base(path), text})
			if findings.HasErrors() {
				t.Fatal(findings)
			}
			golden(t, strings.TrimSuffix(path, ".conf")+".golden", string(laid))
			checkFormat(t, text)
		})
	}
}

func TestFormatReturnsFilesWithErrorsUnchanged(t *testing.T) {
	for name, text := range map[string]string{
		"a mistake":       "[rules]\nrule:[cuont][a=1][time=1;count=1][result=2;return=1]\n",
		"not UTF-8":       "[rules]\n# \xff\n",
		"UTF-16":          "\xff\xfe[\x00",
		"a long line":     "[rules]\n#" + strings.Repeat("x", maxLine) + "\n",
		"behind the end":  "[end]\n[rules]\n",
		"outside section": "a=1\n",
	} {
		t.Run(name, func(t *testing.T) {
			laid, findings := Format(Source{"rules.conf", []byte(text)})
			if !findings.HasErrors() || string(laid) != text {
				t.Errorf("got %q with %v", laid, findings)
			}
		})
	}
}

// TestFormatNeedsNoOtherFiles checks that missing declarations, which may be in
// another file of the set, and word lists are not reported.
func TestFormatNeedsNoOtherFiles(t *testing.T) {
	laid, findings := Format(Source{"10-lists.conf", []byte("[dicts]\nvip:no/such/list\n[rules]\nrule:[direct][uid@vip][][result=9;return=1]")})
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	want := "[dicts]\nvip : no/such/list\n\n[rules]\nrule : [direct] [uid @ vip] [] [result=9; return=1]\n"
	if string(laid) != want {
		t.Errorf("got %q", laid)
	}
}

// TestFormatKeepsLinesThatWouldBecomeTooLong formats a line that would be too
// long to parse with blanks between its values.
func TestFormatKeepsLinesThatWouldBecomeTooLong(t *testing.T) {
	line := "rule:[count][a=1][time=1;count=1][result=2;return=1]"
	long := "GET /x : a=" + strings.Repeat("x", maxLine-20) + ";b=1;c=2"
	text := "[rules]\n" + line + "\n\n[routes]\n" + long + "\n"
	laid, findings := Format(Source{"rules.conf", []byte(text)})
	if findings.HasErrors() || !strings.Contains(string(laid), "\n"+long+"\n") {
		t.Fatalf("%v; %d bytes of %d", findings, len(laid), len(text))
	}
	checkFormat(t, []byte(text))
}
