package middleware

import (
	"net/http"
	"slices"
	"strings"

	"github.com/koalagate/koalagate/internal/door"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/rules"
)

// requestOf returns the parts of a request that the mapping needs. The target is that
// of the request line: an earlier router may have shortened r.URL, and has decoded it.
func requestOf(r *http.Request) mapping.Request {
	request := mapping.Request{
		Door:    Door,
		Method:  r.Method,
		Path:    r.RequestURI,
		Host:    r.Host,
		Scheme:  "http",
		Peer:    r.RemoteAddr,
		Headers: mapping.HTTPHeaders(r.Header),
	}
	if !strings.HasPrefix(r.RequestURI, "/") {
		request.Path = r.URL.RequestURI()
	}
	if r.TLS != nil {
		request.Scheme = "https"
	}
	return request
}

// keepForm gives a request the form that a handler has read from its copy: net/http removes the
// files of the form of the request that it knows.
func keepForm(r, own *http.Request) {
	if r.MultipartForm == nil {
		r.MultipartForm = own.MultipartForm
	}
}

// forward returns the request with the headers of [forward] instead of the client's. It is r
// itself if there are none.
func (s *server) forward(r *http.Request, q *door.Question) *http.Request {
	var buffer [8]rules.Header
	forwarded := s.gate.Forwarded(buffer[:0], q)
	if len(forwarded) == 0 {
		return r
	}
	own := *r // a handler before this one may still read r
	own.Header = make(http.Header, len(r.Header)+len(forwarded))
	for name, values := range r.Header {
		if !slices.ContainsFunc(forwarded, func(h rules.Header) bool { return door.IsSpelling(h.Name, name) }) {
			own.Header[name] = values
		}
	}
	for _, h := range forwarded {
		if h.Value != "" {
			own.Header.Set(h.Name, h.Value)
		}
	}
	return &own
}
