package mapping

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/rules"
)

// field is a header that a door reads: its key, and its name in the manual and in error
// messages.
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

// extAuthzPrefix is the prefix that Envoy adds to the path in HTTP mode.
const extAuthzPrefix = "/v1/ext-authz"

// original is the request that a check concerns, according to the headers of its
// door's family. Unknown parts are "".
type original struct {
	call *Request
	door *doorname.Door

	method  string // in upper case
	target  string
	host    string
	oddHost bool // whether the host is malformed
	ownHost bool // whether the host is the check's, because the gateway sent none
	scheme  string
	address netip.Addr
	ip      string // the canonical text of address

	path  string
	query string

	tokens []Token // of the lines of [tokens] that the rules use

	maxParams int
	crowded   bool // names that no rule uses were ignored

	missing  []string
	disputed bool // two headers name different paths
}

// read extracts the original request from a call. Each door reads its own family of
// headers only: if it accepted any family, a client could forge its path through a
// gateway that does not set or clear the headers of the other family.
func (q *original) read(call *Request, o *Options) error {
	q.call, q.door = call, doorname.Of(call.Door)
	switch q.door.Reads {
	case doorname.Fields:
		q.readFields(o)
	case doorname.Original:
		q.readOriginal()
	case doorname.Forwarded:
		q.readForwarded(o)
	case doorname.Check:
		q.readCheck(o)
	default:
		if q.door.Adds == doorname.Entries || q.door.Adds == doorname.Arguments {
			return nil
		}
		return unknownDoor(call.Door)
	}
	// Gateways pass on methods as received. Some applications accept `post` as POST, so
	// a client must not avoid rules by the case.
	q.method = upper(q.method)
	if q.disputed {
		return disputed(call.Door, xOriginalURI, xOriginalURL)
	}
	if len(q.missing) > 0 {
		return lacking(call.Door, q.missing)
	}
	return nil
}

func (q *original) readOriginal() {
	q.method = q.require(xOriginalMethod)
	q.target = q.header(xOriginalURI.key)
	url := q.header(xOriginalURL.key)
	switch {
	case q.target == "" && url == "":
		q.missing = append(q.missing, xOriginalURI.name)
	case q.target == "":
		q.target = url
	case url != "":
		// A gateway that sets one of them forwards what a client sends in the other,
		// and they cannot be distinguished.
		_, path, _ := cutAuthority(q.target)
		_, other, _ := cutAuthority(url)
		q.disputed = path != other
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

func (q *original) readCheck(o *Options) {
	q.method = q.call.Method
	q.target = strings.TrimPrefix(q.call.Path, extAuthzPrefix)
	if q.target == "" {
		q.target = "/"
	}
	q.setHost(q.call.Host)
	q.readForwardedProto()
	q.requireAddress(xForwardedFor, forwardedElement(q.header(xForwardedFor.key), o.TrustedHops))
}

// readFields uses the address of the peer, unless there are gateways before this process
// that append to X-Forwarded-For. The nearest gateway is then the peer and the first trusted
// hop.
func (q *original) readFields(o *Options) {
	q.method = q.call.Method
	q.target = q.call.Path
	q.setHost(q.call.Host)
	q.scheme = lower(q.call.Scheme)
	if !q.door.Hops || o.TrustedHops <= 0 {
		q.setAddress(q.call.Peer)
		return
	}
	q.requireAddress(xForwardedFor, forwardedElement(q.header(xForwardedFor.key), o.TrustedHops-1))
}

func (q *original) readForwardedProto() {
	q.scheme = lower(lastElement(q.header(xForwardedProto.key)))
	if q.scheme == "" {
		q.scheme = "http" // gateways without TLS may omit the header
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

// splitTarget sets path and query from the target, and appends the segments of the path
// to segments. Targets without a path by their form, `*` and the authority of a CONNECT,
// have no segments.
func (q *original) splitTarget(segments []string, o *Options) ([]string, error) {
	path, query := cutTarget(q.target)
	q.query = query
	switch {
	case q.target == "":
		return nil, nil // Envoy's TCP checks and CONNECT
	case !o.KeepMalformed && strings.IndexByte(q.target, '#') >= 0:
		// HTTP does not allow fragments in targets. Some programs end the path or the
		// query at the number sign and others do not, so that a client could show the
		// rules one path and the application another.
		return nil, malformed("it contains a fragment; a number sign is written %23")
	case path == "*":
		q.path = path
		return nil, nil
	case q.method == http.MethodConnect && !strings.HasPrefix(path, "/"):
		return nil, q.checkAuthority(path, o)
	case !strings.HasPrefix(path, "/"):
		var authority string
		var absolute bool
		if authority, path, absolute = cutAuthority(path); absolute {
			if err := q.checkAuthority(authority, o); err != nil {
				return nil, err
			}
		}
	}
	path, err := q.readSlashes(path, o)
	if err == nil && q.door.InProcess && !o.KeepMalformed {
		err = q.checkProgram(path)
	}
	if err != nil {
		return nil, err
	}
	q.path, segments, err = normalizePath(path, segments, o.KeepMalformed)
	return segments, err
}

// header returns a header of the call, "" without a value.
func (q *original) header(key string) string {
	if q.call.Headers == nil {
		return ""
	}
	value, _ := q.call.Headers.Header(key)
	if key == "cookie" && q.door.JoinedCookies {
		value = SplitCookies(value) // Envoy has joined them
	}
	return q.known(value)
}

// known returns value, or "" if it has no meaning: blanks, and a placeholder that the
// gateway did not replace.
func (q *original) known(value string) string {
	if isBlank(value) || q.door.Placeholders && isPlaceholder(value) {
		return ""
	}
	return value
}

// parseAddress parses an IP address with or without a port, and an IPv6 address with or
// without brackets. An IPv4-mapped address becomes the IPv4 address. The zone is
// dropped, because it names a network interface of the sender.
func parseAddress(s string) (netip.Addr, bool) {
	host, ok := cutPort(trim(s))
	if !ok || host == "" {
		return netip.Addr{}, false
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}, false
	}
	return address.WithZone("").Unmap(), true
}

// cutPort removes brackets and port from an address, and reports whether they were
// valid.
func cutPort(s string) (host string, ok bool) {
	if inside, found := strings.CutPrefix(s, "["); found {
		host, port, closed := strings.Cut(inside, "]")
		ok = closed && strings.IndexByte(host, ':') >= 0
		return host, ok && (port == "" || port[0] == ':' && isPort(port[1:]))
	}
	host, port, found := strings.Cut(s, ":")
	if !found || strings.IndexByte(port, ':') >= 0 {
		return s, true // without a port, or a bare IPv6 address
	}
	return host, isPort(port)
}

func isPort(s string) bool {
	if len(s) == 0 || len(s) > 5 {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// addressText returns the canonical text of address. If written already contains it,
// addressText returns that part of written, which saves the allocation.
func addressText(address netip.Addr, written string) string {
	var buffer [64]byte
	text := address.AppendTo(buffer[:0])
	if host, _ := cutPort(trim(written)); string(text) == host {
		return host
	}
	return string(text)
}

// networkText returns the address of the network that a client-ip source names.
func networkText(address netip.Addr, s *rules.ParamSource) string {
	bits := s.V6
	if address.Is4() {
		bits = s.V4
	}
	network, err := address.Prefix(bits)
	if err != nil {
		return "" // an invalid prefix length, which the parser of rule files rejects
	}
	return network.Addr().String()
}

// forwardedElement returns the element of an X-Forwarded-For list before the hops
// rightmost elements; "" if the list is too short. It counts from the right, because
// gateways append there and clients write the left end.
func forwardedElement(list string, hops int) string {
	for ; ; hops-- {
		comma := strings.LastIndexByte(list, ',')
		if hops <= 0 {
			return trim(list[comma+1:])
		}
		if comma < 0 {
			return ""
		}
		list = list[:comma]
	}
}

// lastElement returns the last element of a header that several gateways may append to:
// the entry of the nearest gateway.
func lastElement(list string) string {
	return forwardedElement(list, 0)
}

// lacksAddress reports whether a parameter that rules use is absent because the request
// has no address: without it, limits by address would not match.
func (q *original) lacksAddress(set *rules.Set, p *rules.Params) bool {
	if q.door.NamesParams() {
		return false
	}
	if _, ok := p.Get("ip"); !ok && set.Uses("ip") {
		return true
	}
	for _, d := range set.Params {
		if _, ok := p.Get(d.Name); !ok && set.Uses(d.Name) && slices.ContainsFunc(d.Sources, isClientIP) {
			return true
		}
	}
	return false
}

func isClientIP(s rules.ParamSource) bool { return s.Kind == rules.FromClientIP }
