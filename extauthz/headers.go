package extauthz

import (
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"golang.org/x/net/http/httpguts"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/envoyapi"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/wire"
	"github.com/koalagate/koalagate/rules"
)

// appendHeaders appends headers as HeaderValueOption messages. All of them overwrite:
// APPEND would keep a client's value alongside ours.
func appendHeaders(b []byte, field protowire.Number, list []rules.Header) []byte {
	for _, h := range list {
		var option int
		b, option = wire.Begin(b, field)
		b = envoyapi.AppendHeader(b, optionHeader, h)
		b = wire.AppendNumber(b, optionAction, uint64(corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD))
		b = wire.End(b, option)
	}
	return b
}

// ownPrefix is the lower-case prefix of the headers by which the gateway informs the
// upstream.
const ownPrefix = "x-koala-"

// optional lists our headers that a decision need not have.
var optional = [...]string{engine.HeaderRule, engine.HeaderDegraded, engine.HeaderResult, engine.HeaderReceipt}

// appendForged appends the names of headers for Envoy to remove from the request:
// those with our prefix that the client may have sent and that this answer does not
// set, so that the upstream does not take them for the gateway's. The optional
// headers are removed even if the check does not show them, because Envoy's
// allowed_headers may hide them from us.
func (m *message) appendForged(b []byte, set []rules.Header) []byte {
	isSet := func(name string) bool {
		return slices.ContainsFunc(set, func(h rules.Header) bool { return strings.EqualFold(h.Name, name) })
	}
	for _, name := range optional {
		if !isSet(name) {
			b = wire.AppendText(b, okRemove, name)
		}
	}
	isNamed := func(name string) bool {
		return slices.ContainsFunc(optional[:], func(n string) bool { return strings.EqualFold(n, name) })
	}
	for _, list := range [...][]mapping.Entry{m.headers, m.raw} {
		for i := range list {
			if name := list[i].Key; isOwn(name) && httpguts.ValidHeaderFieldName(name) && !isSet(name) && !isNamed(name) {
				b = wire.AppendText(b, okRemove, name) // duplicates do no harm
			}
		}
	}
	return b
}

// isOwn reports whether a header name begins with our prefix. An underscore counts
// as a hyphen, because CGI applications cannot distinguish them.
func isOwn(name string) bool {
	if len(name) <= len(ownPrefix) {
		return false
	}
	for i := range len(ownPrefix) {
		c := name[i]
		switch {
		case c == '_':
			c = '-'
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		}
		if c != ownPrefix[i] {
			return false
		}
	}
	return true
}
