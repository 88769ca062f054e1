package door

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"github.com/koalagate/koalagate/internal/doorname"
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

// What the application learns of an allowed request besides the decision. A door adds
// these headers to the request for the application, in every mode: no client's own header of such a
// name may reach it.

// Forwarded appends the headers of [forward] to dst, in the order of the files. A header
// without a value, "", is to be removed from the request. Of several inputs, the
// first one with the parameter supplies the value. Inputs of imported limits have none: nothing
// derived their parameters.
func (g *Gate) Forwarded(dst []rules.Header, q *Question) []rules.Header {
	if q.rules == nil || len(q.rules.Forwards) == 0 {
		return dst
	}
	onlyUTF8 := doorname.Of(q.Request.Door).OnlyUTF8
	for _, f := range q.rules.Forwards {
		h := rules.Header{Name: f.Header}
		for i := range q.inputs {
			if q.inputs[i].Sourced {
				continue
			}
			value, unsent := f.Value(q.inputs[i].Params, onlyUTF8)
			if unsent != "" {
				g.Unsent(q, f.Header, unsent)
			}
			if h.Value = value; value != "" {
				break
			}
		}
		dst = append(dst, h)
	}
	return dst
}

// Unsent logs that the application does not receive the value of a header, and why. The
// value is not logged: it may be a secret.
func (g *Gate) Unsent(q *Question, header, why string) {
	if g.Logger == nil {
		return
	}
	if omitted, due := g.unsent.Due(); due {
		g.Logger.Warn("a value was not forwarded to the application, which sees the request without the header",
			"door", q.Request.Door, "header", header, "reason", why, "suppressed", omitted)
	}
}

// IsSpelling reports whether two header names are equal for an application that treats
// underscores as hyphens, as CGI does.
func IsSpelling(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	return strings.EqualFold(strings.ReplaceAll(a, "_", "-"), strings.ReplaceAll(b, "_", "-"))
}
