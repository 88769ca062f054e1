package mapping

import (
	"strings"

	"github.com/koalagate/koalagate/rules"
)

// Keep returns a copy of the request from which Params derives the same parameters for a rule set.
// It stays valid after the call, in whose buffers strings of the request may be. It has the headers
// that the rule set and doors read, and no others.
func (r *Request) Keep(set *rules.Set) *Request {
	kept := &Request{
		Door: r.Door, Method: strings.Clone(r.Method), Path: strings.Clone(r.Path), Host: strings.Clone(r.Host),
		Scheme: strings.Clone(r.Scheme), Peer: strings.Clone(r.Peer), Domain: strings.Clone(r.Domain),
		Principal: strings.Clone(r.Principal), SNI: strings.Clone(r.SNI), Entries: keepEntries(r.Entries), Args: keepEntries(r.Args),
	}
	if r.Headers != nil {
		kept.keepHeaders(r.Headers, set)
	}
	if r.Metadata != nil {
		kept.keepMetadata(r.Metadata, set)
	}
	if len(r.Context) > 0 {
		kept.Context = make(map[string]string, len(r.Context))
		for name, value := range r.Context {
			kept.Context[strings.Clone(name)] = strings.Clone(value)
		}
	}
	return kept
}

func keepEntries(list []Entry) (kept []Entry) {
	for i := range list {
		kept = append(kept, Entry{strings.Clone(list[i].Key), strings.Clone(list[i].Value)})
	}
	return kept
}

// keptHeaders are copies of headers.
type keptHeaders map[string]string

// Header returns the value of the header with this lower-case name.
func (h keptHeaders) Header(name string) (string, bool) {
	value, found := h[name]
	return value, found
}

// keepHeaders copies the headers that are read. Those of net/http stay lists: repeated ones differ
// from one with commas.
func (r *Request) keepHeaders(from Headers, set *rules.Set) {
	lists, isHTTP := from.(HTTPHeaders)
	lines, texts := make(HTTPHeaders), make(keptHeaders)
	keep := func(name string) {
		if isHTTP {
			key := string(appendCanonical(nil, name))
			if values, found := lists[key]; found {
				lines[key] = values
			}
		} else if value, found := from.Header(name); found {
			texts[name] = strings.Clone(value)
		}
	}
	for _, f := range [...]field{
		xOriginalMethod, xOriginalURI, xOriginalURL, xRealIP, xForwardedMethod, xForwardedURI, xForwardedHost, xForwardedProto, xForwardedFor,
	} {
		keep(f.key)
	}
	for _, d := range set.Params {
		if d.GatewayHeader != "" {
			keep(d.GatewayHeader)
		}
		for i := range d.Sources {
			switch s := &d.Sources[i]; s.Kind {
			case rules.FromHeader:
				keep(s.Name)
			case rules.FromCookie:
				keep("cookie")
			}
		}
	}
	for _, t := range set.Tokens {
		for i := range t.Places {
			switch place := &t.Places[i]; place.Kind {
			case rules.InBearer:
				keep("authorization")
			case rules.InHeader:
				keep(place.Name)
			case rules.InCookie:
				keep("cookie")
			}
		}
	}
	if r.Headers = texts; isHTTP {
		r.Headers = lines
	}
}

// keepMetadata copies the values of the gateway's metadata that [params] reads.
func (r *Request) keepMetadata(from func(namespace, path string) (string, bool), set *rules.Set) {
	type place struct{ namespace, path string }
	kept := make(map[place]string)
	for _, d := range set.Params {
		for i := range d.Sources {
			if s := &d.Sources[i]; s.Kind == rules.FromMetadata {
				if value, found := from(s.Name, s.Path); found {
					kept[place{s.Name, s.Path}] = strings.Clone(value)
				}
			}
		}
	}
	r.Metadata = func(namespace, path string) (string, bool) {
		value, found := kept[place{namespace, path}]
		return value, found
	}
}
