package middleware

import (
	"net/http"
	"strings"

	"github.com/koalagate/koalagate/internal/mapping"
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
