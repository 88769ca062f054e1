package extauthz

import (
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"golang.org/x/net/http/httpguts"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/wire"
	"github.com/koalagate/koalagate/rules"
)

// appendHeaders appends headers to the field of a response. All of them overwrite:
// APPEND would let a client's own value stand beside ours.
func appendHeaders(b []byte, field protowire.Number, list []rules.Header) []byte {
	for _, h := range list {
		var option, header int
		b, option = wire.Begin(b, field)
		b, header = wire.Begin(b, optionHeader)
		b = wire.End(wire.AppendText(wire.AppendText(b, headerKey, h.Name), headerValue, h.Value), header)
		b = wire.AppendNumber(b, optionAction, uint64(corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD))
		b = wire.End(b, option)
	}
	return b
}

// ownPrefix begins, in lower case, the headers that are the gateway's word to
// the upstream.
const ownPrefix = "x-koala-"

// unsaid are the headers of ours that a decision may leave unsaid.
var unsaid = [...]string{engine.HeaderRule, engine.HeaderDegraded, engine.HeaderResult}

// appendForged appends the names of the headers of ours that the client may have
// sent and that this answer does not set: an upstream must not take them for the
// gateway's word. What is unsaid is named even if the check does not show it, since
// Envoy's allowed_headers may hide it.
func (a *asked) appendForged(b []byte, set []rules.Header) []byte {
	isSet := func(name string) bool {
		return slices.ContainsFunc(set, func(h rules.Header) bool { return strings.EqualFold(h.Name, name) })
	}
	for _, name := range unsaid {
		if !isSet(name) {
			b = wire.AppendText(b, okRemove, name)
		}
	}
	isNamed := func(name string) bool {
		return slices.ContainsFunc(unsaid[:], func(n string) bool { return strings.EqualFold(n, name) })
	}
	for _, list := range [...][]mapping.Entry{a.headers, a.raw} {
		for i := range list {
			if name := list[i].Key; isOwn(name) && httpguts.ValidHeaderFieldName(name) && !isSet(name) && !isNamed(name) {
				b = wire.AppendText(b, okRemove, name) // twice if the client sent it twice, which does no harm
			}
		}
	}
	return b
}

// isOwn tells whether a header begins like ours. An underscore counts as a
// hyphen: to applications behind CGI and its like the two are one name.
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
