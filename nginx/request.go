package nginx

import (
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/koalagate/koalagate/internal/mapping"
)

// read takes from a check what the mapping needs. What of it is believed, the
// mapping decides by the door.
func (q *question) read(r *http.Request, door string, target string) {
	q.request = mapping.Request{
		Door:    door,
		Method:  r.Method,
		Path:    target,
		Host:    r.Host,
		Scheme:  "http",
		Peer:    r.RemoteAddr,
		Headers: mapping.HTTPHeaders(r.Header),
	}
	if r.TLS != nil {
		q.request.Scheme = "https"
	}
}

// targetOf is the request target as it came, less the scheme and host of one
// in absolute form. r.URL would have it decoded, and an encoded slash is not
// one that separates segments.
func targetOf(r *http.Request) string {
	if strings.HasPrefix(r.RequestURI, "/") {
		return r.RequestURI
	}
	return r.URL.RequestURI()
}

// asksForNative tells whether a check's URL says ?_deny=native: a denial then
// has its own status where auth_request would have 403.
func asksForNative(target string) bool {
	_, query, _ := strings.Cut(target, "?")
	for query != "" {
		var argument string
		argument, query, _ = strings.Cut(query, "&")
		if value, found := strings.CutPrefix(argument, "_deny="); found {
			return value == "native"
		}
	}
	return false
}

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// passOverBody gets the body of a check out of the way without waiting for it,
// and tells whether the connection can carry another check.
//
// A gateway that forwards Content-Length but not the body it announces would
// hang if the body were awaited, as net/http does before it answers. Were it
// not awaited and the connection kept, the next check would be taken for that
// body, and a client could choose where in it a check of its own making
// begins. So only what has arrived together with the headers is passed over.
func passOverBody(w http.ResponseWriter, r *http.Request) (reusable bool) {
	if r.ContentLength == 0 || r.ProtoMajor > 1 {
		return true
	}
	if r.Header.Get("Expect") != "" {
		return false // reading would ask the gateway to send the body
	}
	if err := http.NewResponseController(w).SetReadDeadline(longAgo); err != nil {
		return false
	}
	_, err := io.Copy(io.Discard, r.Body)
	return err == nil
}
