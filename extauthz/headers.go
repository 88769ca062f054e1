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

// option is a header in Envoy's form, its two messages in one piece.
type option struct {
	option corev3.HeaderValueOption
	header corev3.HeaderValue
}

// headerRoom is room for as many headers as most answers have.
type headerRoom struct {
	made [10]option
	list [10]*corev3.HeaderValueOption
}

// options are the headers of both lists in Envoy's form. All of them overwrite:
// APPEND would let a client's own value stand beside ours.
func (r *headerRoom) options(first, second []rules.Header) (a, b []*corev3.HeaderValueOption) {
	n := len(first) + len(second)
	made, list := r.made[:], r.list[:]
	if n > len(made) {
		made, list = make([]option, n), make([]*corev3.HeaderValueOption, n)
	}
	for i := range n {
		o := &made[i]
		if i < len(first) {
			o.header.Key, o.header.Value = first[i].Name, first[i].Value
		} else {
			h := second[i-len(first)]
			o.header.Key, o.header.Value = h.Name, h.Value
		}
		o.option.Header = &o.header
		o.option.AppendAction = corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
		list[i] = &o.option
	}
	return list[:len(first):len(first)], list[len(first):n]
}

// ownPrefix begins, in lower case, the headers that are the gateway's word to
// the upstream.
const ownPrefix = "x-koala-"

// unsaid are the headers of ours that a decision may leave unsaid: the first
// without a rule, the last without an entry of [result]. Answers share them.
var unsaid = [...]string{engine.HeaderRule, engine.HeaderDegraded, engine.HeaderResult}

// forged are the headers of ours that the client may have sent and that this
// answer does not overwrite: an upstream must not take them for the gateway's
// word. What is unsaid is named even if the check does not show it, since
// Envoy's allowed_headers may hide it.
func forged(http *authv3.AttributeContext_HttpRequest, set []rules.Header) []string {
	isSet := func(name string) bool {
		return slices.ContainsFunc(set, func(h rules.Header) bool { return strings.EqualFold(h.Name, name) })
	}
	from, to := 0, len(unsaid)
	if isSet(engine.HeaderRule) {
		from++
	}
	if isSet(engine.HeaderResult) {
		to--
	}
	names := unsaid[from:to:to] // so that append copies
	for name := range headerNames(http) {
		isNamed := func() bool {
			return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
		}
		if isOwn(name) && httpguts.ValidHeaderFieldName(name) && !isSet(name) && !isNamed() {
			names = append(names, name)
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
