package mapping

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/koalagate/koalagate/internal/doorname"
)

// field is a header that a door reads: its key, and the name that the manual
// and the error messages use.
type field struct{ key, name string }

var (
	xOriginalMethod  = field{"x-original-method", "X-Original-Method"}
	xOriginalURI     = field{"x-original-uri", "X-Original-URI"}
	xOriginalURL     = field{"x-original-url", "X-Original-URL"}
	xRealIP          = field{"x-real-ip", "X-Real-IP"}
	xForwardedMethod = field{"x-forwarded-method", "X-Forwarded-Method"}
	xForwardedURI    = field{"x-forwarded-uri", "X-Forwarded-Uri"}
	xForwardedHost   = field{"x-forwarded-host", "X-Forwarded-Host"}
	xForwardedProto  = field{"x-forwarded-proto", "X-Forwarded-Proto"}
	xForwardedFor    = field{"x-forwarded-for", "X-Forwarded-For"}
)

// extAuthzPrefix is what Envoy puts before the path in HTTP mode.
const extAuthzPrefix = "/v1/ext-authz"

// original is the request that a check is about, as its door's family of
// headers tells it. What is not known is "".
type original struct {
	call *Request

	method  string
	target  string
	host    string
	scheme  string
	address netip.Addr
	ip      string // the canonical text of address

	path  string
	query string

	missing  []string
	disputed bool // two headers tell different paths
}

// read finds the original request in a call. Each door looks at its own family
// of headers: one that took whichever is there would let a client forge its
// own path through a gateway that knows nothing of the other family.
func (q *original) read(call *Request, o *Options) error {
	q.call = call
	switch call.Door {
	case doorname.RateLimit, doorname.Koala:
		return nil
	case doorname.AuthRequest, doorname.Accel:
		q.readNginx()
	case doorname.ForwardAuth:
		q.readForwarded(o)
	case doorname.ExtAuthzWeb:
		q.readExtAuthzWeb(o)
	case doorname.Middleware:
		q.readFields()
		q.readMiddlewareAddress(o)
	default: // ExtAuthz
		q.readFields()
		q.setAddress(call.Peer)
	}
	if q.disputed {
		return disputed(call.Door, xOriginalURI, xOriginalURL)
	}
	if len(q.missing) > 0 {
		return lacking(call.Door, q.missing)
	}
	return nil
}

func (q *original) readNginx() {
	q.method = q.require(xOriginalMethod)
	q.target = q.header(xOriginalURI.key)
	url := q.header(xOriginalURL.key)
	switch {
	case q.target == "" && url == "":
		q.missing = append(q.missing, xOriginalURI.name)
	case q.target == "":
		q.target = url
	case url != "":
		// A gateway that sets one of them hands on what a client says in the
		// other, and there is no telling which is which.
		q.disputed = cutAuthority(url) != cutAuthority(q.target)
	}
	q.readForwardedHost()
	q.readForwardedProto()
	q.requireAddress(xRealIP, q.header(xRealIP.key))
}

func (q *original) readForwarded(o *Options) {
	q.method = q.require(xForwardedMethod)
	q.target = q.require(xForwardedURI)
	q.readForwardedHost()
	q.readForwardedProto()
	q.requireAddress(xForwardedFor, forwardedElement(q.header(xForwardedFor.key), o.TrustedHops))
}

func (q *original) readExtAuthzWeb(o *Options) {
	q.method = q.call.Method
	q.target = strings.TrimPrefix(q.call.Path, extAuthzPrefix)
	if q.target == "" {
		q.target = "/"
	}
	q.host = canonicalHost(q.call.Host)
	q.readForwardedProto()
	q.requireAddress(xForwardedFor, forwardedElement(q.header(xForwardedFor.key), o.TrustedHops))
}

func (q *original) readFields() {
	q.method = q.call.Method
	q.target = q.call.Path
	q.host = canonicalHost(q.call.Host)
	q.scheme = lower(q.call.Scheme)
}

// readMiddlewareAddress takes the peer, unless gateways stand before this
// process: the nearest one is then the peer, and the first trusted hop.
func (q *original) readMiddlewareAddress(o *Options) {
	if o.TrustedHops <= 0 {
		q.setAddress(q.call.Peer)
		return
	}
	q.requireAddress(xForwardedFor, forwardedElement(q.header(xForwardedFor.key), o.TrustedHops-1))
}

func (q *original) readForwardedHost() {
	q.host = canonicalHost(lastElement(q.header(xForwardedHost.key)))
	if q.host == "" {
		q.host = canonicalHost(q.call.Host)
	}
}

func (q *original) readForwardedProto() {
	q.scheme = lower(lastElement(q.header(xForwardedProto.key)))
	if q.scheme == "" {
		q.scheme = "http" // what a gateway without TLS may leave unsaid
	}
}

func (q *original) require(f field) string {
	value := q.header(f.key)
	if value == "" {
		q.missing = append(q.missing, f.name)
	}
	return value
}

func (q *original) requireAddress(f field, value string) {
	if !q.setAddress(value) {
		q.missing = append(q.missing, f.name)
	}
}

func (q *original) setAddress(written string) bool {
	address, ok := parseAddress(written)
	if ok {
		q.address, q.ip = address, addressText(address, written)
	}
	return ok
}

// splitTarget finds path and query in the target, and appends the segments of
// the path to segments. A target that has no path by its form, `*` or the
// authority of a CONNECT, has none.
func (q *original) splitTarget(segments []string, keep bool) ([]string, error) {
	path, query := cutTarget(q.target)
	q.query = query
	switch {
	case q.target == "":
		return nil, nil // Envoy's TCP checks and CONNECT
	case !keep && strings.IndexByte(q.target, '#') >= 0:
		// No target may have one. Some programs end the path or the query there,
		// others go on behind it: a client could tell the rules one path, and the
		// application another.
		return nil, malformed("it holds a fragment; a number sign is written %23")
	case path == "*":
		q.path = path
		return nil, nil
	case q.method == http.MethodConnect && !strings.HasPrefix(path, "/"):
		return nil, nil
	case !strings.HasPrefix(path, "/"):
		path = cutAuthority(path)
	}
	var err error
	q.path, segments, err = normalizePath(path, segments, keep)
	return segments, err
}

// header is a header of the call, "" where it says nothing.
func (q *original) header(key string) string {
	if q.call.Headers == nil {
		return ""
	}
	value, _ := q.call.Headers.Header(key)
	if key == "cookie" && q.call.Door == doorname.ExtAuthzWeb {
		value = CookiesApart(value) // Envoy has joined them
	}
	return q.said(value)
}

// said is value, or "" where it says nothing: blanks, and at forward-auth a
// placeholder that the gateway left as it found it.
func (q *original) said(value string) string {
	if isBlank(value) || q.call.Door == doorname.ForwardAuth && isPlaceholder(value) {
		return ""
	}
	return value
}
