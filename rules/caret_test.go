package rules

import (
	"strings"
	"testing"
)

func TestCaretPosition(t *testing.T) {
	for why, c := range map[string]struct {
		line   string
		column int
		want   string
	}{
		"plain":                  {"abc", 2, "  abc\n   ^"},
		"the end":                {"abc", 4, "  abc\n     ^"},
		"beyond the end":         {"abc", 9, "  abc\n     ^"},
		"tabs stay tabs":         {"\ta\tb", 4, "  \ta\tb\n  \t \t^"},
		"wide characters":        {"规则x", 3, "  规则x\n      ^"},
		"control characters":     {"a\x1b[31mb", 7, "  a\uFFFD[31mb\n        ^"},
		"a long line":            {strings.Repeat("a", 200) + "b" + strings.Repeat("c", 200), 201, "  …" + strings.Repeat("a", 60) + "b" + strings.Repeat("c", 59) + "…\n  " + strings.Repeat(" ", 61) + "^"},
		"the end of a long line": {strings.Repeat("a", 200), 201, "  …" + strings.Repeat("a", 120) + "\n  " + strings.Repeat(" ", 121) + "^"},
	} {
		f := Finding{Code: "E012", Message: "m", Hint: "h", Position: Position{"f", 1, c.column}, Line: c.line}
		_, got, _ := strings.Cut(f.Text(), "\n")
		if got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", why, got, c.want)
		}
	}
}

func TestSuggest(t *testing.T) {
	for word, want := range map[string]string{
		"cuont": "count", "COUNT": "count", "lek": "leak", "tokens": "token", "drect": "direct", "bsae": "base",
		"c": "", "": "", "window": "", "cat": "", strings.Repeat("count", 100): "",
	} {
		if got := suggest(word, methodNames); got != want {
			t.Errorf("for %.20q: %q; want %q", word, got, want)
		}
	}
	if got := oneOf([]string{"a", "b", "c"}) + "|" + oneOf([]string{"a"}) + "|" + oneOf(nil); got != "a, b or c|a|" {
		t.Errorf("got %s", got)
	}
}
