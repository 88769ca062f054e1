package mapping

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/koalagate/koalagate/internal/doorname"
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

// Refusal reports that a check cannot be decided, because it lacks a header or is
// malformed. An enforcing door denies such a check with Status. The text contains
// nothing that a client wrote.
type Refusal struct {
	Status  int      // 400 for a malformed request, 403 for a check whose headers do not describe the request
	Reason  string   // for the log and the client
	Missing []string // the missing headers, as the manual spells them
	// NoAddress reports that the request has no address of the client, and rules need one.
	NoAddress bool
}

// Error returns the reason and what to do about it.
func (r *Refusal) Error() string { return r.Reason }

// unknownDoor refuses the requests of a door for which read has no case: no part of them
// can be trusted.
func unknownDoor(door string) error {
	return &Refusal{
		Status: http.StatusForbidden,
		Reason: fmt.Sprintf("the request came through a door with the unknown name %q; use one of %s",
			door, strings.Join(doorname.All(), ", ")),
	}
}

func lacking(door string, names []string) error {
	return &Refusal{
		Status: http.StatusForbidden,
		Reason: fmt.Sprintf("%s: the check lacks a usable %s; have the gateway set it",
			door, strings.Join(names, ", ")),
		Missing: names,
	}
}

func withoutAddress(door string) error {
	return &Refusal{
		Status:    http.StatusBadRequest,
		Reason:    door + ": the connection has no IP address of the client, which the rules need",
		NoAddress: true,
	}
}

func disputed(door string, a, b field) error {
	return &Refusal{
		Status: http.StatusForbidden,
		Reason: fmt.Sprintf("%s: %s and %s name different paths; have the gateway set one and clear the other",
			door, a.name, b.name),
	}
}

func malformedHost(what string) error {
	return &Refusal{
		Status: http.StatusBadRequest,
		Reason: "malformed host: " + what,
	}
}

func malformed(what string) error {
	return &Refusal{
		Status: http.StatusBadRequest,
		Reason: "malformed path: " + what,
	}
}
