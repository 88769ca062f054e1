package probe

import (
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
)

// SourceKind is the kind of a Source.
type SourceKind string

// The kinds of sources.
const (
	Header SourceKind = "header"
	Cookie SourceKind = "cookie"
	Query  SourceKind = "query argument"
)

// Source is a part of a request that clients choose, and that rules may read.
type Source struct {
	Kind SourceKind
	Name string
}

// String returns the source as reports name it: X-User-Id, or the cookie uid.
func (s Source) String() string {
	if s.Kind == Header {
		return s.Name
	}
	return fmt.Sprintf("the %s %s", s.Kind, s.Name)
}

// request is the part of a request that clients choose.
type request struct {
	query  string // raw
	header http.Header
}

// request returns the request as the options describe it.
func (p *prober) request() request {
	query := p.Target.RawQuery
	if p.Target.Scheme != "http" && p.Target.Scheme != "https" {
		_, query, _ = strings.Cut(p.Path, "?")
	}
	return request{query, p.Header.Clone()}
}

// with returns r with a value of the source, or without the source if value is "".
func (r request) with(s Source, value string) request {
	r.header = r.header.Clone()
	switch s.Kind {
	case Header:
		setHeader(r.header, s.Name, value)
	case Cookie:
		line := replace(strings.Join(r.header.Values("Cookie"), "; "), "; ", s.Name, value, cookieName)
		setHeader(r.header, "Cookie", line)
	case Query:
		r.query = replace(r.query, "&", url.QueryEscape(s.Name), value, argumentName)
	}
	return r
}

func setHeader(h http.Header, name, value string) {
	if value == "" {
		h.Del(name)
	} else {
		h.Set(name, value)
	}
}

// replace returns pairs NAME=VALUE, joined by separator, without the pairs that have
// the given name, as nameOf reads names. A value other than "" is added.
func replace(pairs, separator, name, value string, nameOf func(string) string) string {
	list := slices.DeleteFunc(split(pairs, separator), func(pair string) bool { return nameOf(pair) == nameOf(name) })
	if value != "" {
		list = append(list, name+"="+value)
	}
	return strings.Join(list, separator)
}

// split splits pairs at the first byte of separator, without empty ones.
func split(pairs, separator string) []string {
	list := strings.Split(pairs, separator[:1])
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return slices.DeleteFunc(list, func(pair string) bool { return pair == "" })
}

func cookieName(pair string) string {
	name, _, _ := strings.Cut(pair, "=")
	return strings.TrimSpace(name)
}

func argumentName(pair string) string {
	name, _, _ := strings.Cut(pair, "=")
	if plain, err := url.QueryUnescape(name); err == nil {
		return plain
	}
	return name
}

// sources returns the sources of r in order, each once.
func (r request) sources() []Source {
	var list []Source
	for _, name := range slices.Sorted(maps.Keys(r.header)) {
		if name != "Host" && name != "Cookie" {
			list = append(list, Source{Header, name})
		}
	}
	for _, pair := range split(strings.Join(r.header.Values("Cookie"), "; "), ";") {
		list = append(list, Source{Cookie, cookieName(pair)})
	}
	for _, pair := range split(r.query, "&") {
		list = append(list, Source{Query, argumentName(pair)})
	}
	return distinct(list)
}

// distinct returns the sources of a list, each once, without Host, which selects the
// application.
func distinct(list []Source) []Source {
	seen := make(map[Source]bool, len(list))
	var kept []Source
	for _, s := range list {
		if s.Kind == Header {
			s.Name = textproto.CanonicalMIMEHeaderKey(s.Name)
		}
		if s.Name == "" || seen[s] || s == (Source{Header, "Host"}) {
			continue
		}
		seen[s] = true
		kept = append(kept, s)
	}
	return kept
}
