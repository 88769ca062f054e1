package display_test

import (
	"strings"
	"testing"

	"github.com/koalagate/koalagate/internal/display"
	"github.com/koalagate/koalagate/rules"
)

// Values come from clients, so they must not break lines or control a terminal.
func TestValueIsOnePrintableWord(t *testing.T) {
	for value, want := range map[string]string{
		"ann":            "ann",
		"严禁":             "严禁",
		"":               `""`,
		"a b":            `"a b"`,
		`"`:              `"\""`,
		"\xff\xfe":       `"\xff\xfe"`,
		"\x1b[2J":        `"\x1b[2J"`,
		"\u202e":         `"\u202e"`,
		"\ufffd":         "\ufffd", // sent as this character, so different from an invalid byte
		"a\nverdict: no": `"a\nverdict: no"`,
	} {
		if got := display.Value(value); got != want {
			t.Errorf("Value(%q) = %s, want %s", value, got, want)
		}
	}
}

func TestTextKeepsLines(t *testing.T) {
	if got := display.Text("a\tb\n\x1b[2J\u202e严\xff"); got != "a\tb\n?[2J?严?" {
		t.Errorf("%q", got)
	}
}

func TestIdentity(t *testing.T) {
	for want, values := range map[string][]rules.Param{
		"all together":     nil,
		`a=1 b="x y" c=""`: {{Name: "a", Value: "1"}, {Name: "b", Value: "x y"}, {Name: "c"}},
	} {
		if got := display.Identity(values); got != want {
			t.Errorf("Identity(%v) = %s, want %s", values, got, want)
		}
	}
}

func TestJSONKeepsHTMLCharacters(t *testing.T) {
	var b strings.Builder
	if err := display.JSON(&b, map[string]string{"a": "<&>"}); err != nil {
		t.Fatal(err)
	}
	if want := "{\n  \"a\": \"<&>\"\n}\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

func TestPainter(t *testing.T) {
	if got := display.Painter(true).Paint(display.Red, "deny"); got != "\x1b[31mdeny\x1b[0m" {
		t.Errorf("got %q with colors", got)
	}
	if got := display.Painter(false).Paint(display.Red, "deny"); got != "deny" {
		t.Errorf("got %q without colors", got)
	}
}
