package rules

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestTablesAreReadAsWritten(t *testing.T) {
	many := strings.Repeat(",c", 999_999)
	names := []string{"k"}
	for i := range 1000 {
		names = append(names, fmt.Sprintf("c%d", i))
	}
	wide := strings.Join(names, ",")
	for name, c := range map[string]struct {
		text string
		want map[string]string // the cells after the key, joined by |
	}{
		"plain":                        {"k,a,b\nx,1,2\ny,3,4\n", map[string]string{"x": "1|2", "y": "3|4"}},
		"no last newline":              {"k,a,b\nx,1,2", map[string]string{"x": "1|2"}},
		"Windows line ends":            {"k,a,b\r\nx,1,2\r\n\r\n", map[string]string{"x": "1|2"}},
		"a byte order mark":            {"\ufeffk,a,b\nx,1,2\n", map[string]string{"x": "1|2"}},
		"blank lines":                  {"\n \t\nk,a,b\n\n  \nx,1,2\n\n", map[string]string{"x": "1|2"}},
		"blanks around cells":          {" k , a ,\tb \n x ,  1 , 2\t\n", map[string]string{"x": "1|2"}},
		"blanks around quotes":         {"k,a,b\n \"x y\" , \"1\" ,\t\"2\" \n", map[string]string{"x y": "1|2"}},
		"blanks inside quotes":         {"k,a,b\n\" x \",\" 1 \",2\n", map[string]string{"x": "1|2"}},
		"quotes, commas and lines":     {"k,a,b\n\"a,b\",\"x \"\"y\"\"\",\"two\nlines\"\n", map[string]string{"a,b": "x \"y\"|two\nlines"}},
		"empty cells":                  {"k,a,b\nx,,\ny,1,\n", map[string]string{"x": "|", "y": "1|"}},
		"a header alone":               {"k,a,b\n", map[string]string{}},
		"a key alone":                  {"k\nx\n\ny\n", map[string]string{"x": "", "y": ""}},
		"a header with any first name": {"Tenant ID?,a,b\nx,1,2\n", map[string]string{"x": "1|2"}},
		"keys of different case":       {"k,a\nx,1\nX,2\n", map[string]string{"x": "1", "X": "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			table, err := ParseTable("t.csv", strings.NewReader(c.text))
			if err != nil {
				t.Fatal(err)
			}
			got := make(map[string]string)
			for key, row := range table.rows.All() {
				var cells []string
				for i := range table.columns {
					cells = append(cells, row.Cell(i))
				}
				got[key] = strings.Join(cells, "|")
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) || table.Len() != len(c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	for name, c := range map[string]struct{ text, want string }{
		"empty":                   {"", "t.csv:1: the table has no header"},
		"a million columns":       {"k" + many + "\n", "t.csv:1:5: the column c occurs twice"},
		"a thousand cells in one": {wide + "\nx,1\n", "t.csv:2:3: the row has 2 cells, the header 1001"},
		"UTF-16":                  {"\xff\xfek\x00", "t.csv:1: the file is UTF-16"},
		"NUL":                     {"k,a\nx,\x001\n", "t.csv:2: the row contains a NUL byte"},
		"GBK":                     {"k,a\nx,\xd1\xcf\n", "t.csv:2: the row is not UTF-8"},
		"a quote in a cell":       {"k,a\nx,1\"2\n", "t.csv:2:4: quote inside a cell"},
		"text after a quote":      {"k,a\n\"x\"y,1\n", "t.csv:2:3: text after a quoted cell"},
		"an unclosed quote":       {"k,a\nx,\"1\n" + strings.Repeat("y,2\n", 100), "t.csv:2: a quote in this row is not closed"},
		"two of one key":          {"k,a\nx,1\n x ,2\n", "t.csv:3:1: the key \"x\" occurs twice"},
		"no key":                  {"k,a\n  ,1\n", "t.csv:2:1: the row has no key"},
		"a comma too many":        {"k,a\nx,1,\n", "t.csv:2:5: the row has 3 cells, the header 2"},
		"old Mac line ends":       {"k,a\rx,1\ry,2\r", "t.csv:1:3: invalid column name"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseTable("t.csv", strings.NewReader(c.text))
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %.200v, want %s", err, c.want)
			}
		})
	}
}

// TestTablesWithoutEndAreRejected checks that the memory for a file without line ends, or
// with a quote that is not closed, is bounded.
func TestTablesWithoutEndAreRejected(t *testing.T) {
	for name, c := range map[string]struct {
		begin string
		then  byte
		want  string
	}{
		"a hole":            {"", 0, "t.csv:1: the row contains a NUL byte"},
		"one row":           {"k,a\nx,", 'x', "t.csv:2: the row has more than 16777216 bytes"},
		"an unclosed quote": {"k,a\nx,\"", '\n', "the row has more than 16777216 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseTable("t.csv", io.MultiReader(strings.NewReader(c.begin), io.LimitReader(endless(c.then), 1<<30)))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// endless is a reader of one byte without end.
type endless byte

func (e endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(e)
	}
	return len(b), nil
}

func TestTableKeepsTheErrorOfItsReader(t *testing.T) {
	broken := errors.New("broken")
	_, err := ParseTable("t.csv", io.MultiReader(strings.NewReader("k,a\nx,1\n"), failing{broken}))
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want an error that wraps the reader's", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// limitsFor returns the limits of the first match, and whether there is one.
func limitsFor(set *Set, params ...string) (Limits, bool) {
	p := new(Params)
	for i := 0; i < len(params); i += 2 {
		p.Set(params[i], params[i+1])
	}
	var m Matches
	if set.Match(p, &m); len(m.List) == 0 {
		return Limits{}, false
	}
	return m.List[0].Limits, true
}

func TestThresholdsDependOnTheRequest(t *testing.T) {
	const table = "tenant,rate,burst,span,quota\nacme,3,20,60,\nbeta,unlimited,,,\n free ,0,,86400,\n7,,1,,\nlarge,,,,9000000000000000\n"
	parse := func(t *testing.T, method, words string) *Set {
		t.Helper()
		text := "[tables]\nplans : plans.csv\n[rules]\nrule : [" + method + "] [a=+] [" + words + "] [result=2; return=1]" + entries
		set, findings := Parse([]Source{{"rules.conf", []byte(text)}}, Options{OpenTable: func(_, path string) (*Table, error) {
			return ParseTable(path, strings.NewReader(table))
		}})
		if set == nil {
			t.Fatal(findings)
		}
		return set
	}
	for _, c := range []struct {
		method, words string
		params        string
		want          string
	}{
		{"count", "time=60; count=table plans.rate by t else 5", "t=acme", "{60 3 0 0}"},
		{"count", "time=60; count=table plans.rate by t else 5", "t= acme ", "{60 3 0 0}"},
		{"count", "time=60; count=table plans.rate by t else 5", "t=ACME", "{60 5 0 0}"},
		{"count", "time=60; count=table plans.rate by t else 5", "t=free", "{60 0 0 0}"},
		{"count", "time=60; count=table plans.rate by t else 5", "t=007", "{60 5 0 0}"},
		{"count", "time=60; count=table plans.rate by t else 5", "t=7", "{60 5 0 0}"},
		{"count", "time=60; count=table plans.rate by t else 5", "t=", "{60 5 0 0}"},
		{"count", "time=60; count=table plans.rate by t else 5", "", "{60 5 0 0}"},
		{"count", "time=60; count=table plans.rate by t else 5", "t=beta", "none"},
		{"count", "time=60; count=table plans.rate by t else unlimited", "t=nobody", "none"},
		{"count", "time=60; count=table plans.rate by t else 10k", "t=nobody", "{60 10000 0 0}"},
		{"count", "time=table plans.span by t else 5m; count=4", "t=acme", "{60 4 0 0}"},
		{"count", "time=table plans.span by t else 5m; count=4", "t=free", "{86400 4 0 0}"},
		{"count", "time=table plans.span by t else 5m; count=4", "t=x", "{300 4 0 0}"},
		{"count", "time=table plans.span by t else unlimited; count=4", "t=x", "none"},
		{"base", "base=table plans.burst by t else 2; time=60; count=table plans.rate by t else 5", "t=acme", "{60 3 20 0}"},
		{"leak", "time=60; count=table plans.quota by u else 5", "t=acme; u=large", "{60 9000000000000000 0 0}"},
		{"token", "time=60; count=table plans.rate by t else 5", "t=free", "{60 0 0 0}"},
		{"token", "time=60; count=table plans.burst by t else 5", "t=acme", "{60 20 0 20}"},
		{"token", "time=60; count=table plans.burst by t else 5; burst=7", "t=acme", "{60 20 0 7}"},
		{"token", "time=60; count=7; burst=table plans.burst by t else 5", "t=acme", "{60 7 0 20}"},
		{"count", "time=60; count=param n else 5", "n= 007 ", "{60 7 0 0}"},
		{"count", "time=60; count=param n else 5", "n=0", "{60 5 0 0}"},
		{"count", "time=60; count=param n else 5", "n=9000000000000001", "{60 5 0 0}"},
		{"count", "time=60; count=param n else unlimited", "n=x", "none"},
		{"count", "time=60; count=param n else 0", "n=-1", "{60 0 0 0}"},
		{"token", "time=31622400; count=param n else 5", "n=284836", "{31622400 284836 0 284836}"},
		{"token", "time=31622400; count=param n else 5", "n=284837", "{31622400 5 0 5}"},
		{"token", "time=31622400; count=param n else unlimited", "n=284837", "none"},
		{"token", "time=31622400; count=param n else 5; burst=param b else 6", "n=284837; b=284836", "{31622400 284837 0 284836}"},
		{"token", "time=31622400; count=param n else 5; burst=param b else 6", "n=284837; b=284837", "{31622400 284837 0 6}"},
	} {
		params := []string{"a", "1"}
		for _, p := range strings.Split(c.params, "; ") {
			if name, value, found := strings.Cut(p, "="); found {
				params = append(params, name, value)
			}
		}
		set := parse(t, c.method, c.words)
		got := "none"
		limits, found := limitsFor(set, params...)
		if found {
			got = fmt.Sprint(limits)
		}
		if got != c.want {
			t.Errorf("[%s] [%s] with %s: got %s, want %s", c.method, c.words, c.params, got, c.want)
		}
		p := new(Params)
		for i := 0; i < len(params); i += 2 {
			p.Set(params[i], params[i+1])
		}
		for _, x := range set.Rules[0].Resolve(p) {
			if n := *limits.of(x.Threshold.Word); found && n != x.Value || !found && x.Value != Unlimited && len(set.Rules[0].Thresholds) == 1 {
				t.Errorf("[%s] [%s] with %s: %s is resolved as %d, and matched with %d", c.method, c.words, c.params, x.Threshold, x.Value, n)
			}
		}
	}
}

func TestThresholdParametersAreUsed(t *testing.T) {
	set, findings := parseFile(t, "testdata/good/thresholds.conf")
	if set == nil {
		t.Fatal(findings)
	}
	for _, name := range []string{"tenant", "lim", "cap"} {
		if !set.Uses(name) {
			t.Errorf("the set does not use %s", name)
		}
	}
	if other, _ := parseFile(t, "testdata/good/thresholds.conf"); other.Hash != set.Hash {
		t.Error("the hash differs for equal files")
	}
	text, err := os.ReadFile("testdata/good/thresholds.conf")
	if err != nil {
		t.Fatal(err)
	}
	other, findings := Parse([]Source{{"thresholds.conf", text}}, Options{OpenTable: func(_, path string) (*Table, error) {
		return ParseTable(path, strings.NewReader("tenant,rate,burst,span,tier,month\n"))
	}})
	if other == nil || other.Hash == set.Hash {
		t.Errorf("the hash is that of another table: %v", findings)
	}
}

func TestFindingsInTablesAreBounded(t *testing.T) {
	var csv strings.Builder
	csv.WriteString("k,a\n")
	for i := range 10_000 {
		fmt.Fprintf(&csv, "%d,x%s\n", i, strings.Repeat("y", 20_000*max(0, 1-i)))
	}
	text := "[tables]\nt : t.csv\n[rules]\nrule : [count] [k=+] [time=60; count=table t.a by k else 5] [result=2; return=1]" + entries
	_, findings := Parse([]Source{{"rules.conf", []byte(text)}}, Options{OpenTable: func(_, path string) (*Table, error) {
		return ParseTable(path, strings.NewReader(csv.String()))
	}})
	if len(findings) != maxTableFaults || slices.ContainsFunc(findings, func(f Finding) bool { return len(f.Text()) > 1000 }) {
		t.Errorf("%d findings, want %d short ones", len(findings), maxTableFaults)
	}
}
