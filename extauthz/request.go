package extauthz

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"github.com/koalagate/koalagate/mapping"
)

// read takes from a check what the mapping needs. Every part of a check may
// be missing: Envoy's TCP filter sends no request at all.
//
// The request's own fields are read and never its pseudo headers, which
// Envoy's allowed_headers takes away. source.address is the peer of the
// connection, whatever X-Forwarded-For says.
func (q *question) read(check *authv3.CheckRequest) {
	a := check.GetAttributes()
	http := a.GetRequest().GetHttp()
	q.request = mapping.Request{
		Door:      mapping.ExtAuthz,
		Method:    http.GetMethod(),
		Path:      http.GetPath(),
		Host:      http.GetHost(),
		Scheme:    http.GetScheme(),
		Peer:      a.GetSource().GetAddress().GetSocketAddress().GetAddress(),
		Headers:   headersOf(http),
		Context:   a.GetContextExtensions(),
		Principal: a.GetSource().GetPrincipal(),
		SNI:       a.GetTlsSession().GetSni(),
	}
	if hasMetadata(a) {
		q.request.Metadata = gatewayMetadata{a}.lookup
	}
}

// headersOf are the headers in the form in which Envoy sent them: a map, or
// with encode_raw_headers a list of raw ones.
func headersOf(http *authv3.AttributeContext_HttpRequest) mapping.Headers {
	if list := http.GetHeaderMap(); list != nil {
		return rawHeaders{list}
	}
	return mapping.MapHeaders(http.GetHeaders())
}

// rawHeaders are headers as they came: a name stands as often as it was sent,
// and values are any bytes.
type rawHeaders struct{ *corev3.HeaderMap }

// Header returns the value of the header with this lower-case name, as Envoy
// would put it into the map: several values joined by a comma, and those of
// Cookie by "; ".
func (h rawHeaders) Header(name string) (string, bool) {
	value, found := "", false
	for _, header := range h.GetHeaders() {
		if !strings.EqualFold(header.GetKey(), name) {
			continue
		}
		switch {
		case !found:
			value, found = rawValue(header), true
		case name == "cookie":
			value += "; " + rawValue(header)
		default:
			value += "," + rawValue(header)
		}
	}
	return value, found
}

func rawValue(h *corev3.HeaderValue) string {
	if raw := h.GetRawValue(); len(raw) > 0 {
		return string(raw)
	}
	return h.GetValue()
}
