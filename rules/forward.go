package rules

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxForwarded is the maximum length of a forwarded value in bytes: nginx makes a 500 of an
// answer with more than 2 kB of headers.
const maxForwarded = 1024

// Forward is a line of [forward]: a header that an allowed request has at the application
// if it has the parameter, and otherwise lacks, whatever the client sent.
type Forward struct {
	Header string // as written
	Param  string // the parameter whose value the header has
	Pos    Position
}

// forwards reports whether a line of [forward] has the parameter.
func (s *Set) forwards(name string) bool {
	return slices.ContainsFunc(s.Forwards, func(f *Forward) bool { return f.Param == name })
}

// Value returns the value that the header has for a request with these parameters, "" for
// none. unsent says why a value that the request has is not sent, "" if it is. If onlyUTF8
// is set, any other value counts as absent. For koalagate's own programs, may change.
func (f *Forward) Value(p *Params, onlyUTF8 bool) (value, unsent string) {
	value, _ = p.Get(f.Param)
	switch trimmed := strings.TrimSpace(value); {
	case trimmed == "" || onlyUTF8 && !utf8.ValidString(value):
		return "", ""
	case len(value) > maxForwarded:
		return "", fmt.Sprintf("it is longer than %d bytes", maxForwarded)
	case slices.Contains(p.shortened, f.Param):
		return "", "it is longer than max_value"
	case strings.ContainsFunc(value, isControl):
		return "", "it has a control character"
	case len(trimmed) != len(value): // without the blanks, it may be the name of somebody else
		return "", "it begins or ends with a blank, which headers lose"
	}
	return value, ""
}

// isControl reports whether no header can hold the character.
func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
