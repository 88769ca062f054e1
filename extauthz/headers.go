package extauthz

import (
	"iter"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"golang.org/x/net/http/httpguts"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/rules"
)

// headerOptions are headers in Envoy's form. All of them overwrite: APPEND
// would let a client's own value stand beside ours.
func headerOptions(list []rules.Header) []*corev3.HeaderValueOption {
	type option struct {
		option corev3.HeaderValueOption
		header corev3.HeaderValue
	}
	made := make([]option, len(list))
	options := make([]*corev3.HeaderValueOption, len(list))
	for i, h := range list {
		o := &made[i]
		o.header.Key, o.header.Value = h.Name, h.Value
		o.option.Header = &o.header
		o.option.AppendAction = corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
		options[i] = &o.option
	}
	return options
}

// ownPrefix begins, in lower case, the headers that are the gateway's word to
// the upstream.
const ownPrefix = "x-koala-"

// forged are the headers of ours that the client may have sent and that this
// answer does not overwrite: an upstream must not take them for the gateway's
// word. Two are named even if the check does not show them, since Envoy's
// allowed_headers may hide them.
func forged(http *authv3.AttributeContext_HttpRequest, set []rules.Header) []string {
	names := make([]string, 0, 2)
	add := func(name string) {
		isSet := slices.ContainsFunc(set, func(h rules.Header) bool { return strings.EqualFold(h.Name, name) })
		if !isSet && !slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) }) {
			names = append(names, name)
		}
	}
	add(engine.HeaderRule)
	add(engine.HeaderDegraded)
	for name := range headerNames(http) {
		if isOwn(name) && httpguts.ValidHeaderFieldName(name) {
			add(name)
		}
	}
	return names
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

func headerNames(http *authv3.AttributeContext_HttpRequest) iter.Seq[string] {
	return func(yield func(string) bool) {
		for name := range http.GetHeaders() {
			if !yield(name) {
				return
			}
		}
		for _, h := range http.GetHeaderMap().GetHeaders() {
			if !yield(h.GetKey()) {
				return
			}
		}
	}
}
