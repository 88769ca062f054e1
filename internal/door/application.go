package door

import (
	"strings"

	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/rules"
)

// What the application learns of an allowed request besides the decision. A door adds
// these headers to the request for the application, in every mode: no client's own header of such a
// name may reach it.

// Forwarded appends the headers of [forward] to dst, in the order of the files. A header
// without a value, "", is to be removed from the request. Of several inputs, the
// first one with the parameter supplies the value.
func (g *Gate) Forwarded(dst []rules.Header, q *Question) []rules.Header {
	if q.rules == nil || len(q.rules.Forwards) == 0 {
		return dst
	}
	onlyUTF8 := doorname.Of(q.Request.Door).OnlyUTF8
	for _, f := range q.rules.Forwards {
		h := rules.Header{Name: f.Header}
		for i := range q.inputs {
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
