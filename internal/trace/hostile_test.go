package trace_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/trace"
)

// named is a request whose gateway named it.
type named string

func (n named) RequestID() string { return string(n) }

// Whatever clients and gateways send, a line of the log stays one line, shows nothing that a
// terminal interprets, and has the text for programs.
func TestHostileTextsOfTheLog(t *testing.T) {
	const noUTF8 = "no UTF-8" // values of this kind are pseudonyms always
	for name, text := range map[string]string{
		"sequences of terminals": "\x1b[2J\x1b]0;t\x07\u009b2J\x7f",
		"further lines":          "a\r\n{\"t\":1}\n\t\v",
		"NUL":                    "a\x00b",
		"another direction":      "a\u202eb\u2066\u200f\u061c",
		"HTML":                   "</script><img src=x onerror=alert(1)>&",
		"a formula":              "=1+1",
		noUTF8:                   "a\xff\xc0\xaf",
		"an end of the text":     `","answer":{"verdict":"allow"}}`,
	} {
		f := new(file)
		e, l := logging(t, trace.LogOptions{Instance: text}, f)
		for _, pairs := range [][]string{{"uid", text}, {"uid", "ann", text, "x"}} {
			call := &engine.Call{Door: "test", Op: engine.Take, Now: 1, Origin: named(text), Inputs: []engine.Input{{Params: params(pairs...), Hits: 1}}}
			if _, err := e.Decide(context.Background(), call); err != nil {
				t.Fatal(err)
			}
		}
		closeLog(t, l)
		lines := f.String()
		if n := strings.Count(lines, "\n"); n != 2 || !utf8.ValidString(lines) {
			t.Errorf("%s: %d lines; want 2: %q", name, n, lines)
		}
		if i := strings.IndexFunc(lines, func(r rune) bool {
			return r == '<' || r == '>' || r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
		}); i >= 0 {
			t.Errorf("%s: it has %q", name, lines[i:min(len(lines), i+20)])
		}
		for line := range strings.Lines(lines) {
			var read struct {
				Instance  string            `json:"instance"`
				RequestID string            `json:"request_id"`
				Params    map[string]string `json:"params"`
			}
			want := string([]rune(text))
			if err := json.Unmarshal([]byte(line), &read); err != nil || read.Instance != want || read.RequestID != want {
				t.Errorf("%s: %v, %+v", name, err, read)
			}
			_, isName := read.Params[want]
			isMasked := name == noUTF8 && trace.IsPseudonym(read.Params["uid"])
			if read.Params["uid"] != want && !isName && !isMasked {
				t.Errorf("%s: the parameters are %q", name, read.Params)
			}
		}
	}
}
