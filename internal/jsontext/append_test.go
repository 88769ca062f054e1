package jsontext

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// samples has a string for each kind of character that is escaped.
var samples = []string{
	"", "plain", "too fast", `a "quote" and a \`, "\b\f\n\r\t", "\x00\x01\x1f\x7f", "<b>&amp;</b>",
	"慢一点", "\u2028\u2029\u2027", "\ufffd", "\xff", "a\xe4\xb8", "\xed\xa0\x80", "😀\xf0\x9f",
	"\x7f\u0080\u009b2J\u00a0", "\u061c\u200e\u200f\u202a\u202e\u2066\u2069\u2070",
}

// The document is the one of encoding/json, and no terminal interprets its characters.
func TestAppendStringMatchesEncodingJSON(t *testing.T) {
	for _, s := range samples {
		checkString(t, s)
	}
}

// FuzzAppendString compares both appenders with encoding/json for any string.
func FuzzAppendString(f *testing.F) {
	for _, s := range samples {
		f.Add(s)
	}
	f.Fuzz(checkString)
}

func checkString(t *testing.T, s string) {
	t.Helper()
	for escapeHTML, appendTo := range map[bool]func([]byte, string) []byte{true: AppendString, false: AppendStringRawHTML} {
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(escapeHTML)
		if err := e.Encode(s); err != nil {
			t.Fatal(err)
		}
		got := appendTo([]byte("{"), s)
		if string(got)+"\n" != "{"+string(AppendEscaped(nil, want.Bytes())) {
			t.Errorf("%q with HTML escaped: %v: got %s, want %s", s, escapeHTML, got[1:], want.Bytes())
		}
		var back string
		if err := json.Unmarshal(got[1:], &back); err != nil || back != string([]rune(s)) {
			t.Errorf("%q with HTML escaped: %v: it is read as %q, %v", s, escapeHTML, back, err)
		}
		if strings.ContainsFunc(string(got), Commands) {
			t.Errorf("%q with HTML escaped: %v: %q commands a terminal", s, escapeHTML, got)
		}
	}
}

func TestAppendStringDoesNotAllocate(t *testing.T) {
	buffer := make([]byte, 0, 1024)
	for _, s := range samples {
		if n := testing.AllocsPerRun(10, func() { buffer = AppendString(buffer[:0], s) }); n > 0 {
			t.Errorf("%q: %v allocations, want none", s, n)
		}
	}
}
