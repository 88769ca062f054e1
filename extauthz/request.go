package extauthz

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"golang.org/x/net/http/httpguts"

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
	return mapHeaders(http.GetHeaders())
}

// mapHeaders are headers by lower-case name.
type mapHeaders map[string]string

// Header returns the value of the header with this lower-case name. Envoy joins
// several values by a comma, also those of Cookie, where the application reads
// each: a client could hide a cookie from the rules behind another one.
func (h mapHeaders) Header(name string) (string, bool) {
	value, found := h[name]
	if name == "cookie" && strings.IndexByte(value, ',') >= 0 {
		value = cookiesApart(value)
	}
	return value, found
}

// cookiesApart separates cookies that were joined by a comma: one before a name
// and an equals sign, since values hold commas too, against the standard.
func cookiesApart(joined string) string {
	var apart strings.Builder
	for {
		value, rest, found := strings.Cut(joined, ",")
		apart.WriteString(value)
		if !found {
			return apart.String()
		}
		name, _, isPair := strings.Cut(rest, "=")
		if isPair && httpguts.ValidHeaderFieldName(strings.TrimLeft(name, " ")) {
			apart.WriteString("; ")
		} else {
			apart.WriteByte(',')
		}
		joined = rest
	}
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
