package door

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"github.com/koalagate/koalagate/internal/httptext"
	"github.com/koalagate/koalagate/rules"
)

// Sendable removes and repairs, in place, the headers that a gateway could not send
// to its client safely, and returns the rest. Of several headers with one name the
// last remains, because Envoy appends the headers of a denial. Names that would
// change the framing of the message are removed. In values, control characters and
// bytes that are not UTF-8 become blanks.
func Sendable(headers []rules.Header) []rules.Header {
	kept := headers[:0]
	for i, h := range headers {
		isRepeated := slices.ContainsFunc(headers[i+1:], func(later rules.Header) bool { return isSame(later.Name, h.Name) })
		if !isRepeated && !framesMessage(h.Name) {
			kept = append(kept, rules.Header{Name: h.Name, Value: oneLine(h.Value)})
		}
	}
	return kept
}

// framesMessage reports whether a header belongs to the transport, such as a
// pseudo-header, or has an invalid name.
func framesMessage(name string) bool {
	return httptext.IsReservedHeader(name) || !httpguts.ValidHeaderFieldName(name)
}

// isSame reports whether two names mean one header. Valid names are ASCII,
// so their lengths are equal, and are quicker to compare than letters.
func isSame(a, b string) bool { return len(a) == len(b) && strings.EqualFold(a, b) }

// oneLine returns value with blanks for control characters and bytes that are not
// UTF-8, which would break the response to the client.
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
