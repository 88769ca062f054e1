package rules

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzParse checks that the parser accepts any text without a panic, that every finding
// has a position inside the text, and that a set without errors is complete.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/good/*.conf", "testdata/bad/*.conf"} {
		for _, path := range files(f, pattern, 10) {
			if text, err := os.ReadFile(path); err == nil && len(text) < 10_000 {
				f.Add(text)
			}
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		list := func(_, path string) (*Dict, error) { return ParseDict(path, strings.NewReader("7\n10.0.0.0/8\n"+path)) }
		table := func(_, _ string) (*Table, error) {
			return ParseTable("table.csv", strings.NewReader("tenant,rate,tier\n7,5,gold\nask,unlimited,\n007,0,x\n"))
		}
		set, findings := Parse([]Source{{"rules.conf", text}}, Options{OpenDict: list, OpenTable: table, OpenKeys: openKeys, OpenToken: openToken, RequireEnd: len(text)%2 == 1})
		if (set == nil) != findings.HasErrors() {
			t.Fatalf("the set is nil: %v, with these findings: %v", set == nil, findings)
		}
		checkPositions(t, string(text), findings)
		if set != nil {
			checkSet(t, set)
		}
	})
}

// checkPositions checks that each finding has a position inside the text.
func checkPositions(t *testing.T, text string, findings Findings) {
	t.Helper()
	lines := strings.Split(strings.TrimPrefix(text, byteOrderMark), "\n")
	for _, f := range findings {
		at := f.Position
		if at.File == "table.csv" {
			continue // in a table
		}
		if at.Line < 1 || at.Line > len(lines) || at.Column < 1 || at.Column > utf8.RuneCountInString(lines[at.Line-1])+1 {
			t.Fatalf("the position of %v is outside the text", f)
		}
		if rendered := f.Text(); f.Message == "" || f.Hint == "" || strings.Contains(f.Message, "%!") && !strings.Contains(text, "%!") || strings.Count(rendered, "\n") != 2 {
			t.Fatalf("not a finding of a line, its source and a caret: %q", rendered)
		}
	}
}

// checkSet checks the invariants of a set.
func checkSet(t *testing.T, set *Set) {
	t.Helper()
	request := map[string]string{"act": "ask", "uid": "7", "ip": "10.0.0.1", "n": "007"}
	for _, r := range set.Rules {
		if r.Result == nil || r.Return < 1 || r.Counts() && len(r.Thresholds) == 0 && (r.Time < 1 || r.Count < 1) || r.Method == Base && r.Base < 1 && len(r.Thresholds) == 0 || r.Method == Token && r.Burst < 1 && len(r.Thresholds) == 0 {
			t.Fatalf("an incomplete rule: %+v", r)
		}
		if strings.Trim(r.Name, labelLetters) != "" || len(r.Name) > maxName {
			t.Fatalf("a rule with the name %q", r.Name)
		}
		for _, c := range r.Conditions {
			request[c.Name] = "7"
		}
	}
	p := MakeParams(request)
	var m Matches
	set.Match(p, &m)
	matched := make(map[*Rule]bool)
	for i := range m.List {
		matched[m.List[i].Rule] = true
		if m.List[i].Rule.Counts() {
			checkIdentity(t, &m.List[i])
		}
	}
	for _, r := range set.Rules {
		if failed := r.failed(p); (failed == nil && !r.isUnlimitedFor(p)) != matched[r] {
			t.Fatalf("rule %d matches: %v, and fails by %v", r.Return, matched[r], failed)
		}
	}
	set.Route("GET", []string{"a", "b%/c", ""}, p)
}

// isUnlimitedFor reports whether the rule matches no request with these parameters because one of
// its thresholds is unlimited for them.
func (r *Rule) isUnlimitedFor(p *Params) bool {
	for _, x := range r.Resolve(p) {
		if x.Value == Unlimited {
			return true
		}
	}
	return false
}

// FuzzCondition checks that the canonical text of a condition means the same as the
// original.
func FuzzCondition(f *testing.F) {
	for _, c := range []string{"x=ask", "x=7,1-100", `x="a;b]","\\"`, "x!=10.*.0.1-11.0.*.*{~}", "x @ vip", "x-NOTIN-vip{*}", "x ! < -5", "x=2001:DB8::/32,::ffff:1.2.3.4", "x=a b=c", `x ~ a*?b,"\*?\\"`, "x!~é?*,??{~}", "x before now", "x after  now{~}"} {
		for _, v := range []string{"7", "ask", " 10.0.0.1", "2001:db8::1", `\`, "2026-06-01", "1780286400"} {
			f.Add(c, v)
		}
	}
	f.Fuzz(func(t *testing.T, written, v string) {
		first := parseOne(written)
		if first == nil {
			return
		}
		again := parseOne(first.String())
		if again == nil || again.String() != first.String() || again.Joint != first.Joint {
			t.Fatalf("%q is %q, which is read as %v", written, first, again)
		}
		p := MakeParams(map[string]string{first.Name: v})
		if first.Holds(p, 1780286400000) != again.Holds(p, 1780286400000) {
			t.Fatalf("%q and %q differ for %q", written, first, v)
		}
	})
}

// parseOne parses a condition. It returns nil for any other text.
func parseOne(written string) *Condition {
	text := "[dicts]\nvip : vip\n[rules]\nrule : [count] [" + written + "] [time=60; count=1] [result=2; return=1]" + entries
	set, _ := Parse([]Source{{"rules.conf", []byte(text)}}, Options{OpenDict: func(_, path string) (*Dict, error) {
		return ParseDict(path, strings.NewReader("7\n10.0.0.0/8\n"))
	}})
	if set == nil || len(set.Rules) != 1 || len(set.Rules[0].Conditions) != 1 {
		return nil
	}
	return set.Rules[0].Conditions[0]
}

// FuzzParseDict checks that the parser accepts any list without a panic, and that each
// entry is found.
func FuzzParseDict(f *testing.F) {
	f.Add([]byte("7\n# a comment\n10.0.0.0/8\n\n2001:db8::1\nann smith\r\n"))
	f.Add([]byte("\ufeff10.0.0.0/99"))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := ParseDict("list", strings.NewReader(string(text)))
		if err != nil {
			return
		}
		for _, entry := range strings.Split(strings.TrimPrefix(string(text), byteOrderMark), "\n") {
			entry = strings.TrimSpace(entry)
			if entry == "" || entry[0] == '#' || strings.Contains(entry, "/") {
				continue
			}
			var v value
			if v.read(entry, false, true); !d.contains(&v) {
				t.Fatalf("%q is not found", entry)
			}
		}
	})
}

func TestTruncatedFilesDoNotPanic(t *testing.T) {
	for _, path := range files(t, "testdata/good/*.conf", 10) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		whole := strings.TrimRight(string(text), "\n ")
		required := Options{RequireEnd: true, OpenDict: func(_, path string) (*Dict, error) { return ParseDict(path, strings.NewReader("7")) }}
		for cut := range len(whole) {
			set, findings := Parse([]Source{{path, []byte(whole[:cut])}}, required)
			checkPositions(t, whole[:cut], findings)
			if set != nil && !strings.Contains(strings.ToLower(whole[:cut]), "[end]") {
				t.Fatalf("%s cut at byte %d has no [end] and was accepted", path, cut)
			}
		}
	}
}

// FuzzParseTable checks that the parser accepts any text without a panic, that every
// mistake has a place, and that each row is found by its key.
func FuzzParseTable(f *testing.F) {
	for _, text := range []string{
		"tenant,rate\nacme,5\nbeta,unlimited\n", "\ufefftenant,rate\r\n\r\n\"a,b\" , \"x \"\"y\"\"\n\"\t\r\n  \n7,",
		"tenant,rate\nacme,\"5\n", "k\n\"a\"b\n", "k,a,a\n1,2\n1,2,3\n,1,2\n", "k\n\x00\n", "k\n\xff\n", "\xff\xfek", "k\rx", " \" k \" ,a\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		table, err := ParseTable("table.csv", bytes.NewReader(text))
		if err != nil {
			var mistakes *tableError
			if !errors.As(err, &mistakes) || mistakes.Error() == "" {
				t.Fatalf("an error without a place: %v", err)
			}
			for _, m := range mistakes.faults {
				if m.line < 1 || m.column < 0 || m.message == "" || m.hint == "" || m.code == nil {
					t.Fatalf("not a mistake with a place and a hint: %+v", m)
				}
			}
			return
		}
		rows := 0
		for key, row := range table.rows.All() {
			rows++
			found, ok := table.rows.Find(key)
			if !ok || found.Line() != row.Line() || key == "" || key != strings.TrimSpace(key) {
				t.Fatalf("the row %q is not found", key)
			}
			for i := range table.columns {
				if found.Cell(i) != row.Cell(i) {
					t.Fatalf("the cell %d of %q is %q, found %q", i, key, row.Cell(i), found.Cell(i))
				}
			}
		}
		if rows != table.Len() {
			t.Fatalf("%d rows, want %d", rows, table.Len())
		}
	})
}
