package rules

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koalagate/koalagate/internal/vocabulary"
)

var update = flag.Bool("update", false, "write the golden files")

// parseFile parses a file of testdata. Its word lists are in the same folder, and the
// prefix of its name may select an option of the service: require-end-, no-zone-; july-2026-
// sets the clock.
func parseFile(t *testing.T, path string) (*Set, Findings) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Timezone:   "Asia/Shanghai",
		RequireEnd: strings.HasPrefix(filepath.Base(path), "require-end-"),
		OpenDict: func(_, name string) (*Dict, error) {
			list, err := os.Open(filepath.Join(filepath.Dir(path), name))
			if err != nil {
				return nil, os.ErrNotExist // the text of the error depends on the system
			}
			defer list.Close()
			return ParseDict(name, list)
		},
		OpenTable: func(_, name string) (*Table, error) {
			table, err := os.Open(filepath.Join(filepath.Dir(path), name))
			if err != nil {
				return nil, os.ErrNotExist
			}
			defer table.Close()
			return ParseTable(name, table)
		},
		OpenKeys: openKeys, OpenToken: openToken,
	}
	if strings.HasPrefix(filepath.Base(path), "no-zone-") {
		o.Timezone = ""
	}
	if strings.HasPrefix(filepath.Base(path), "july-2026-") {
		o.Now = func() time.Time { return time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC) }
	}
	return Parse([]Source{{Name: filepath.Base(path), Text: text}}, o)
}

// report returns the output of check.
func report(findings Findings) string {
	var b strings.Builder
	for _, f := range findings {
		b.WriteString(f.Text() + "\n")
	}
	return b.String()
}

func files(t testing.TB, pattern string, least int) []string {
	t.Helper()
	list, err := filepath.Glob(pattern)
	if err != nil || len(list) < least {
		t.Fatalf("%s: %d files, %v; want at least %d", pattern, len(list), err, least)
	}
	return list
}

func TestBadFiles(t *testing.T) {
	produced := make(map[string]bool)
	for _, path := range files(t, "testdata/bad/*.conf", 40) {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".conf"), func(t *testing.T) {
			set, findings := parseFile(t, path)
			if len(findings) == 0 {
				t.Fatal("no findings")
			}
			if (set == nil) != findings.HasErrors() {
				t.Errorf("the set is nil: %v; the findings have errors: %v", set == nil, findings.HasErrors())
			}
			for _, f := range findings {
				produced[f.Code] = true
				if strings.Contains(f.Error(), "%!") {
					t.Errorf("a message with a broken format: %s", f.Error())
				}
			}
			golden(t, strings.TrimSuffix(path, ".conf")+".golden", report(findings))
		})
	}
	if t.Failed() {
		return
	}
	produced[warnRenumbered.ID] = true // it needs two generations: see TestRenumbered
	for _, c := range vocabulary.Codes() {
		if !produced[c.ID] {
			t.Errorf("no file of testdata/bad produces %s: %s", c.ID, c.Meaning)
		}
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -update writes it):\n%s", path, diff)
	}
}

func TestCodesAreUniqueWithMeaning(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range vocabulary.Codes() {
		if seen[c.ID] || c.Meaning == "" || len(c.ID) != 4 || !strings.Contains("EW", c.ID[:1]) {
			t.Errorf("code %+v: want an ID of its own, E… or W…, and a meaning", c)
		}
		seen[c.ID] = true
	}
}

func TestFindingErrorAndText(t *testing.T) {
	text := "[rules]\nrule : [cuont] [act=ask; uid=+] [time=60; count=1] [result=2; return=1]\n[result]\n0 : {}\n1 : {}\n2 : {}\n"
	_, findings := Parse([]Source{{"rules.conf", []byte(text)}}, Options{})
	if len(findings) != 1 {
		t.Fatalf("want one finding, got %v", findings)
	}
	want := `rules.conf:2:9: error E012: unknown method "cuont"; want direct, count, base, leak, token or hold`
	if got := findings[0].Error(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	want += "\n  rule : [cuont] [act=ask; uid=+] [time=60; count=1] [result=2; return=1]\n          ^ did you mean \"count\"?"
	if got := findings[0].Text(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestFindingsAreSortedByFileAndPosition(t *testing.T) {
	sources := []Source{
		{"z.conf", []byte("[rules]\nrule : [x] [a=1] [time=1; count=1] [result=9; return=1]\nrule : [count] [a=] [time=1; count=1] [result=0; return=1]\n")},
		{"a.conf", []byte("[result]\n0 : {}\n1 : {\n")},
	}
	_, findings := Parse(sources, Options{})
	var places []string
	for _, f := range findings {
		places = append(places, f.Position.String()+" "+f.Code)
	}
	if text := findings.Error(); strings.Count(text, "\n") != 4 || !strings.HasPrefix(text, "z.conf:2:9: error E012: ") {
		t.Errorf("the findings in one text:\n%s", text)
	}
	want := []string{"z.conf:2:9 E012", "z.conf:2:44 E038", "z.conf:3:19 E019", "z.conf:3:57 E037", "a.conf:3:6 E054"}
	if diff := cmp.Diff(want, places); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
}

func TestBadWordListLineIsReported(t *testing.T) {
	text := "[dicts]\nvip : vip.dat\n[rules]\nrule : [direct] [uid @ vip] [] [result=1; return=1]\n[result]\n0 : {}\n1 : {}\n"
	_, findings := Parse([]Source{{"rules.conf", []byte(text)}}, Options{OpenDict: func(_, path string) (*Dict, error) {
		return ParseDict(path, strings.NewReader("7\n10.0.0.0/99\n"))
	}})
	want := `rules.conf:2:7: error E043: cannot read the word list vip from "vip.dat": vip.dat:2: "10.0.0.0/99" is not a block of addresses; want a block such as 10.0.0.0/8 or 2001:db8::/32`
	if len(findings) != 1 || !strings.HasPrefix(findings[0].Error(), want) {
		t.Errorf("got %v\nwant %s", findings, want)
	}
}

func TestHostileFilesHaveBoundedFindings(t *testing.T) {
	head, tail := "[rules]\nrule : [count] [a=+] [time=1; count=1] [result=2; return=1]\n", "[result]\n0 : {}\n1 : {}\n2 : {\"Err_no\":1}\n"
	deep := strings.Repeat(`{"a":[`, 10_000)
	for name, text := range map[string]string{
		"a line of 100 MB":            head + strings.Repeat("x", 100<<20) + "\n" + tail,
		"deep JSON":                   head + tail + "3 : " + deep + "\n4 : {\"Headers\":" + deep + "\n5 : {\"x\":" + strings.Repeat("[", 60_000) + strings.Repeat("]", 60_000) + "}\n",
		"a hundred thousand mistakes": strings.Replace(head, "\n", "\n"+strings.Repeat("rule : [cuont] [a==1] [tme=1] [return=0]\n", 100_000), 1) + tail,
		"brackets":                    head + "rule : " + strings.Repeat("[", 100_000) + "\n" + tail,
		"semicolons":                  head + "rule : [count] [" + strings.Repeat(";", 100_000) + "] [] []\n" + tail,
		"fields":                      head + tail + "3 : {" + strings.Repeat(`"a":1,`, 20_000) + "\"b\":1}\n",
		"binary":                      head + string(bytes.Repeat([]byte{0xfe, 0, 0x0a}, 100_000)) + tail,
	} {
		t.Run(name, func(t *testing.T) {
			set, findings := Parse([]Source{{"rules.conf", []byte(text)}}, Options{})
			if len(findings) > 2*maxFindings+2 {
				t.Errorf("%d findings", len(findings))
			}
			if name != "fields" && (set != nil || !findings.HasErrors()) {
				t.Errorf("want an error, got %v", findings)
			}
			for _, f := range findings {
				if len(f.Text()) > 4_000 {
					t.Fatalf("a finding of %d bytes", len(f.Text()))
				}
			}
		})
	}
}
