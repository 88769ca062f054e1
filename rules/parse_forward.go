package rules

import (
	"cmp"
	"slices"
	"strings"

	"github.com/koalagate/koalagate/internal/httptext"
)

// The bounds of [forward].
const (
	maxForwards = 32
	// maxForwardNames is the maximum length of all names together, in bytes: the answers to
	// nginx must have room for each of them.
	maxForwardNames = 1024
)

// forwardDecl is a line of [forward].
type forwardDecl struct {
	*Forward
	header, param span
}

// parseForward reads `HEADER : PARAM`.
func (p *parser) parseForward(s span) {
	colons := s.colons()
	if len(colons) == 0 {
		p.reportf(s, errStatement, cmp.Or(halfWidthHint(s.text(), ":"), "want HEADER : PARAM, with blanks around the colon"), "missing colon between blanks in %q", s.mention())
		return
	}
	header, param := s.slice(0, colons[0]).trim(), s.tail(colons[0]+1).trim()
	why := unforwardable(header.text())
	switch {
	case why != "":
		p.reportf(header, errForward, "choose another header, such as X-User-Id", "%q cannot be forwarded: %s", header.mention(), why)
		return
	case param.empty():
		p.reportf(s.end(), errStatement, "want HEADER : PARAM", "missing parameter")
		return
	case !param.isName():
		p.reportf(param, errName, wantName, "invalid parameter name %q", param.mention())
		return
	case isOfResponse(param.text()):
		p.reportf(param, errResponse, "forward a parameter of the request", "%s is known only after the request", param.text())
		return
	}
	if first, repeated := p.declare("forwarded header", strings.ToLower(header.text()), header); repeated {
		p.reportf(header, errForwardTwice, "remove one of them", "the header %s is already forwarded at %s", header.text(), first)
		return
	}
	p.forwards = append(p.forwards, &forwardDecl{&Forward{header.text(), param.text(), header.position()}, header, param})
}

// The headers that are not forwarded: those of a connection, those by which
// gateways, koalagate and applications know the request and its client, and those of
// answers, which gateways would interpret in the answer to a check.
var (
	unforwardedNames = []string{
		"Forwarded", "X-Real-IP", "Set-Cookie", "Location", "WWW-Authenticate",
		"Proxy-Authenticate", "Proxy-Authorization", "HTTP2-Settings", "Expect",
		"Accept-Ranges", "Cache-Control", "Date", "Expires", "Retry-After",
	}
	unforwardedPrefixes = []string{"Content-", "X-Koala-", "X-Accel-", "X-Forwarded-", "X-Original-", "X-Envoy-", "RateLimit"}
)

// unforwardable returns why [forward] cannot set a header, "" if it can.
func unforwardable(name string) string {
	lower := strings.ToLower(name)
	switch {
	case strings.HasPrefix(name, ":"):
		return "it is a part of the request line"
	case strings.Contains(name, "_"):
		return "gateways drop names with _, and applications confuse them with -"
	case !isHeaderName(name):
		return "want letters, digits and - only"
	case httptext.IsReservedHeader(name),
		slices.ContainsFunc(unforwardedNames, func(n string) bool { return strings.EqualFold(n, name) }),
		slices.ContainsFunc(unforwardedPrefixes, func(prefix string) bool { return strings.HasPrefix(lower, strings.ToLower(prefix)) }):
		return "it belongs to the connection, the gateway or koalagate"
	}
	return ""
}

// isHeaderName reports whether every gateway has variables for the header.
func isHeaderName(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-':
		default:
			return false
		}
	}
	return name != ""
}
