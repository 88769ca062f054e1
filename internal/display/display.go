// Package display formats values for the output of commands: values that
// clients sent as single words that no terminal interprets, words in color, and
// JSON documents.
package display

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/koalagate/koalagate/internal/jsontext"
	"github.com/koalagate/koalagate/internal/printable"
	"github.com/koalagate/koalagate/rules"
)

// Value returns a value as one printable word. It quotes values that are empty,
// that are not valid UTF-8, or that contain spaces, quotes or characters that a
// terminal may interpret.
func Value(value string) string {
	plain := value != "" && utf8.ValidString(value) && !strings.ContainsFunc(value, func(r rune) bool {
		return r == ' ' || r == '"' || !unicode.IsPrint(r)
	})
	if plain {
		return value
	}
	return fmt.Sprintf("%q", value)
}

// Text returns a text of several lines as terminals may show it: characters that they may
// interpret are question marks.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, text)
}

// Printf is fmt.Fprintf for lines that quote texts of others: characters of args that a terminal
// may interpret, line ends and tabs included, are U+FFFD. It ignores errors of w.
func Printf(w io.Writer, format string, args ...any) {
	for i, arg := range args {
		switch arg.(type) {
		case string, error, fmt.Stringer:
			args[i] = printable.Text(fmt.Sprint(arg))
		}
	}
	_, _ = fmt.Fprintf(w, format, args...)
}

// Identity returns the parameters that select a counter as "name=value" words,
// or "all together" for the counter that all requests share.
func Identity(values []rules.Param) string {
	if len(values) == 0 {
		return "all together"
	}
	parts := make([]string, len(values))
	for i, p := range values {
		parts[i] = p.Name + "=" + Value(p.Value)
	}
	return strings.Join(parts, " ")
}

// JSON writes v as an indented JSON document that ends with a newline. It does
// not escape HTML characters, but those that terminals interpret.
func JSON(w io.Writer, v any) error {
	var document bytes.Buffer
	e := json.NewEncoder(&document)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(jsontext.AppendEscaped(nil, document.Bytes()))
	return err
}

// Color is the parameter of an ANSI escape sequence that selects a style.
type Color string

// The styles that commands use.
const (
	Faint  Color = "2"
	Red    Color = "31"
	Green  Color = "32"
	Yellow Color = "33"
)

// Painter colors text if it is true. The zero value returns text as it is.
type Painter bool

// Paint returns text in a color.
func (p Painter) Paint(c Color, text string) string {
	if !p {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}
