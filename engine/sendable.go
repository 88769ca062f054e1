package engine

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"github.com/koalagate/koalagate/rules"
)

// Sendable makes of headers what a gateway can send to its client without
// harm, in place: each name once, as said last, since Envoy appends the
// headers of a denial; no name that would change the message around it; no
// value that would end its line.
func Sendable(headers []rules.Header) []rules.Header {
	kept := headers[:0]
	for i, h := range headers {
		isSaidAgain := slices.ContainsFunc(headers[i+1:], func(later rules.Header) bool { return isSame(later.Name, h.Name) })
		if !isSaidAgain && !framesMessage(h.Name) {
			kept = append(kept, rules.Header{Name: h.Name, Value: oneLine(h.Value)})
		}
	}
	return kept
}

// framesMessage tells whether a header is the transport's own, such as a
// pseudo header, or cannot be one at all.
func framesMessage(name string) bool {
	return rules.IsReservedHeader(name) || !httpguts.ValidHeaderFieldName(name)
}

// isSame tells whether two names are one header's. Names that are of any use are
// ASCII, where lengths are quicker told apart than letters.
func isSame(a, b string) bool { return len(a) == len(b) && strings.EqualFold(a, b) }

// oneLine is value with blanks for what would break the client's response:
// control characters, and bytes that are no text.
func oneLine(value string) string {
	isControl := func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7F }
	if utf8.ValidString(value) && strings.IndexFunc(value, isControl) < 0 {
		return value
	}
	return strings.Map(func(r rune) rune {
		if isControl(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, value)
}
