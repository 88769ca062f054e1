package mapping

import (
	"net/http"
	"strings"
)

// Request is a request as it arrived at a door, before any part of it is trusted. At
// the HTTP doors it is the check itself; Params extracts the original request from it
// by the rules of the door.
type Request struct {
	Door    string // one of the names in doorname
	Method  string
	Path    string // with its query, as received
	Host    string
	Scheme  string
	Peer    string // the peer's address, with or without a port
	Headers Headers

	Context map[string]string // ext_authz: context_extensions
	Domain  string            // rate limit service
	Entries []Entry           // rate limit service: one descriptor's, in order
	Args    []Entry           // koala: query and form, in order

	Principal string // ext_authz: source.principal
	SNI       string // ext_authz: tls_session.sni
	// Metadata returns a value of the gateway's dynamic metadata. Nil means that
	// there is none.
	Metadata func(namespace, path string) (string, bool)
}

// Entry is a key and its value in a list whose order and duplicates matter.
type Entry struct {
	Key   string
	Value string
}

// Headers are a request's headers by lower-case name; the values of a header
// sent several times are joined by a comma.
type Headers interface {
	Header(name string) (string, bool)
}

// HTTPHeaders are the headers of a net/http request.
type HTTPHeaders http.Header

var _ Headers = HTTPHeaders(nil)

// Header returns the value of the header with this lower-case name. Several values are
// joined by a comma, as Envoy does, and values of Cookie by "; ", as HTTP/2 requires,
// because a comma does not end a cookie.
func (h HTTPHeaders) Header(name string) (string, bool) {
	// A map lookup by converted bytes does not allocate. http.Header.Get allocates
	// for each name that net/http does not have interned.
	var buffer [64]byte
	values := h[string(appendCanonical(buffer[:0], name))]
	switch len(values) {
	case 0:
		return "", false
	case 1:
		return values[0], true
	}
	if name == "cookie" {
		return strings.Join(values, "; "), true
	}
	return strings.Join(values, ","), true
}

// appendCanonical appends a lower-case name as net/http spells its keys.
func appendCanonical(b []byte, name string) []byte {
	start := true
	for i := range len(name) {
		c := name[i]
		if start && 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		b = append(b, c)
		start = c == '-'
	}
	return b
}
