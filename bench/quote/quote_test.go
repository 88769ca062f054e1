package quote

import (
	"strings"
	"testing"

	"github.com/koalagate/koalagate/bench/report"
)

const kept = `# Measurements

## Run

| | of this report |
| --- | --- |
| commit | abc |
| begun | 2026-11-28 18:30 UTC |
| machine | m |

## Goals

| | measured | must |
| --- | --- | --- |
| calls | 2.35 (2.18–3.01) | ≥ 2 |
| time | 0.50 (0.25–1.00) ms | ≤ 1 |
| size | 7.00 MB | ≤ 8 |

### Memory

| rule | Redis | in process |
| --- | --- | --- |
| count | 1751 | 108 |
`

func newest(t *testing.T) *report.Page {
	t.Helper()
	r, err := report.Parse(kept)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestQuotes(t *testing.T) {
	for name, c := range map[string]struct{ statement, page, want string }{
		"median":             {"{calls} times the calls", "It is 9.99 times\nthe calls.", "It is 2.35 times\nthe calls."},
		"bounds":             {"{calls; least} to {calls; most}", "from 1 to 2", "from 2.18 to 3.01"},
		"bounds of one turn": {"{size; least} to {size; most} MB", "1 to 2 MB", "7.00 to 7.00 MB"},
		"cell, rounded":      {"about {Memory | count | Redis ~2} bytes", "about 3 bytes", "about 1,800 bytes"},
		"fraction, rounded":  {"{time ~1} ms", "1 ms", "0.5 ms"},
		"separators in page": {"about {Memory | count | Redis} bytes", "about 10,000 bytes.", "about 1751 bytes."},
		"as it should be":    {"{calls} times", "2.35 times", "2.35 times"},
		"table":              {"{calls} times", "1 times\n<!-- report: Memory -->\nold\n<!-- /report -->\n", "2.35 times\n<!-- report: Memory -->\n\n| rule | Redis | in process |\n| --- | --- | --- |\n| count | 1751 | 108 |\n\n<!-- /report -->\n"},
	} {
		pages, err := parse("page.md\n  " + c.statement)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := pages[0].Rewritten(c.page, newest(t))
		if err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
		if again, err := pages[0].Rewritten(got, newest(t)); err != nil || again != got {
			t.Errorf("%s: %q, %v the second time; want %q", name, again, err, got)
		}
	}
}

func TestFaultyQuotes(t *testing.T) {
	for name, c := range map[string]struct{ statement, page, want string }{
		"no statement":   {"{calls} times", "nothing", "0 statements"},
		"two statements": {"{calls} times", "1 times 2 times", "2 statements"},
		"no figure":      {"{call} times", "1 times", "no figure for \"call\""},
		"no cell":        {"{Memory | leak | Redis} bytes", "1 bytes", "no figure for"},
		"no table":       {"{calls} times", "1 times<!-- report: Size -->\n<!-- /report -->", "no table \"Size\""},
	} {
		pages, err := parse("page.md\n  " + c.statement)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := pages[0].Rewritten(c.page, newest(t)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

func TestFaultyListsOfQuotes(t *testing.T) {
	for _, list := range []string{"  {calls} times", "page.md\n  no figure", "page.md\n  {calls; middle}", "page.md\n  {calls ~0}", "page.md\n  {calls ~x}"} {
		if _, err := parse(list); err == nil {
			t.Errorf("%q was read", list)
		}
	}
}

func TestUnquoted(t *testing.T) {
	pages, err := parse("page.md\n  {calls} times the calls")
	if err != nil {
		t.Fatal(err)
	}
	if got := pages[0].Unquoted("2.35 times the calls, and 3 times the price"); got != ", and 3 times the price" {
		t.Errorf("%q", got)
	}
	if got := pages[0].Unquoted("<!-- report: Memory -->\n| 1 |\n<!-- /report -->"); got != "" {
		t.Errorf("%q; want nothing", got)
	}
}
