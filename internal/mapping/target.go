package mapping

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/koalagate/koalagate/internal/httptext"
)

// cutTarget splits a request target into its path and its query.
func cutTarget(target string) (path, query string) {
	path, query, _ = strings.Cut(target, "?")
	return path, query
}

// cutAuthority splits a target in absolute form into its authority and its path, and
// reports whether it has that form. Otherwise the path is the whole target.
func cutAuthority(target string) (authority, path string, absolute bool) {
	scheme, rest, found := strings.Cut(target, "://")
	if !found || scheme == "" || strings.ContainsRune(scheme, '/') {
		return "", target, false
	}
	slash := strings.IndexByte(rest, '/')
	if slash < 0 {
		return rest, "/", true
	}
	return rest[:slash], rest[slash:], true
}

// normalizePath appends the segments of a path to segments, each decoded once, with dot
// segments and empty segments resolved, and returns the resulting path. Segments are
// split before they are decoded, so that an encoded slash stays inside its segment. A
// last segment "" stands for a trailing slash. An invalid escape or a NUL is an error
// unless keep is set: then it stands for itself. A segment that becomes a dot segment
// only by decoding is an error, too, because some programs resolve it and others, such
// as http.ServeMux, take it for a name; if keep is set, it is resolved.
func normalizePath(path string, segments []string, keep bool) (string, []string, error) {
	if !keep && strings.IndexByte(path, 0) >= 0 {
		return "", nil, malformed("it contains a NUL")
	}
	first := len(segments)
	clean := strings.HasPrefix(path, "/")
	rest := strings.TrimPrefix(path, "/")
	for more := true; more; {
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		if strings.IndexByte(segment, '%') >= 0 {
			decoded, err := decodeSegment(segment, keep)
			if err != nil {
				return "", nil, err
			}
			if !keep && isDotSegment(decoded) {
				return "", nil, malformed("it contains an encoded dot segment; a dot segment is written . or ..")
			}
			segment, clean = decoded, false
		}
		switch segment {
		case "", ".", "..":
			if segment == ".." && len(segments) > first {
				segments = segments[:len(segments)-1]
			}
			if !more {
				segments = append(segments, "")
			}
			clean = clean && segment == "" && !more
		default:
			segments = append(segments, segment)
		}
	}
	if clean {
		return path, segments, nil
	}
	return "/" + httptext.JoinSegments(segments[first:]), segments, nil
}

func isDotSegment(segment string) bool { return segment == "." || segment == ".." }

func decodeSegment(segment string, keep bool) (string, error) {
	decoded, valid := decodeEscapes(segment, false)
	switch {
	case keep:
		return decoded, nil
	case !valid:
		return "", malformed("it contains an invalid escape; a percent sign is written %25")
	case strings.IndexByte(decoded, 0) >= 0:
		return "", malformed("it contains a NUL")
	}
	return decoded, nil
}

// decodeEscapes decodes %XX, and + as a blank if plus is set. An invalid escape stands
// for itself, and valid is then false.
func decodeEscapes(s string, plus bool) (decoded string, valid bool) {
	valid = true
	if strings.IndexByte(s, '%') < 0 && strings.IndexByte(s, '+') < 0 {
		return s, valid
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '+' && plus:
			c = ' '
		case c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			c = unhex(s[i+1])<<4 | unhex(s[i+2])
			i += 2
		case c == '%':
			valid = false
		}
		b = append(b, c)
	}
	return string(b), valid
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func unhex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c >= 'a':
		return c - 'a' + 10
	}
	return c - 'A' + 10
}

// EncodedSlashes decides paths with encoded slashes, which routers read differently:
// `/api%2Fcomments` is one segment for http.ServeMux and two for routers that use
// http.Request.URL.Path.
type EncodedSlashes int

const (
	// KeepEncodedSlashes keeps an encoded slash inside its segment.
	KeepEncodedSlashes EncodedSlashes = iota
	// SplitEncodedSlashes reads an encoded slash as a slash. The router is assumed to
	// resolve nothing, so a path with dot segments or empty segments is malformed.
	SplitEncodedSlashes
	// RefuseEncodedSlashes makes a path with an encoded slash malformed, and one with
	// a backslash, encoded or not, which some programs read as a slash.
	RefuseEncodedSlashes
)

// readSlashes checks a path and returns it with its encoded slashes as o requires.
func (q *original) readSlashes(path string, o *Options) (string, error) {
	switch o.EncodedSlashes {
	case RefuseEncodedSlashes:
		if hasEscape(path, '/') || hasEscape(path, '\\') || strings.IndexByte(path, '\\') >= 0 {
			return "", malformed("it contains an encoded slash or a backslash")
		}
	case SplitEncodedSlashes:
		path = splitEncodedSlashes(path)
		if !o.KeepMalformed && !isResolved(path) {
			return "", malformed("it contains a dot segment or an empty segment, which the application does not resolve")
		}
	}
	return path, nil
}

// checkProgram refuses paths that net/http reads differently from other servers:
// http.ServeMux does not resolve the path of a CONNECT and takes the segment %2F for a
// trailing slash, and url.URL.EscapedPath decodes slashes if a path has bytes that URLs
// must not contain.
func (q *original) checkProgram(path string) error {
	switch {
	case q.method == http.MethodConnect && !isResolved(path):
		return malformed("it contains a dot segment or an empty segment, which a CONNECT must not have")
	case hasEscape(path, '/') && hasInvalidByte(path):
		return malformed("it contains an encoded slash and a byte that must be encoded")
	case hasSlashSegment(path):
		return malformed("it contains an encoded slash that is a segment of its own")
	}
	return nil
}

// hasEscape reports whether path contains c in its percent-encoded form.
func hasEscape(path string, c byte) bool {
	return indexEscape(path, c) >= 0
}

// hasSlashSegment reports whether a segment of path is an encoded slash and nothing else.
func hasSlashSegment(path string) bool {
	for rest := path; ; {
		i := indexEscape(rest, '/')
		if i < 0 {
			return false
		}
		before, after := rest[:i], rest[i+len("%2F"):]
		if strings.HasSuffix(before, "/") && (after == "" || after[0] == '/') {
			return true
		}
		rest = after
	}
}

// indexEscape returns the index of the first percent-encoded c in path, -1 without one.
func indexEscape(path string, c byte) int {
	for from := 0; ; {
		i := strings.IndexByte(path[from:], '%')
		if i < 0 {
			return -1
		}
		from += i
		if from+2 < len(path) && isHex(path[from+1]) && isHex(path[from+2]) && unhex(path[from+1])<<4|unhex(path[from+2]) == c {
			return from
		}
		from++
	}
}

// splitEncodedSlashes returns path with slashes in place of the encoded ones.
func splitEncodedSlashes(path string) string {
	i := indexEscape(path, '/')
	if i < 0 {
		return path
	}
	var b strings.Builder
	for ; i >= 0; i = indexEscape(path, '/') {
		b.WriteString(path[:i])
		b.WriteByte('/')
		path = path[i+len("%2F"):]
	}
	b.WriteString(path)
	return b.String()
}

// isResolved reports whether a path has neither dot segments nor empty segments, apart
// from an empty last segment, which stands for a trailing slash.
func isResolved(path string) bool {
	rest := strings.TrimPrefix(path, "/")
	for more := true; more; {
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		if isDotSegment(segment) || segment == "" && more {
			return false
		}
	}
	return true
}

// hasInvalidByte reports whether a path contains a byte that url.URL.EscapedPath does
// not accept as it stands.
func hasInvalidByte(path string) bool {
	for i := range len(path) {
		c := path[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte("\"#<>?\\^`{|}", c) >= 0 {
			return true
		}
	}
	return false
}

// setHost sets the host of the original request from the text of its gateway.
func (q *original) setHost(written string) {
	q.host = canonicalHost(written)
	q.oddHost = !isHost(written)
}

// readForwardedHost uses the host of the call itself if the gateway sends none.
func (q *original) readForwardedHost() {
	var written string
	if q.call.Headers != nil {
		written, _ = q.call.Headers.Header(xForwardedHost.key)
	}
	if q.door.Placeholders && isPlaceholder(written) {
		written = ""
	}
	written = written[strings.LastIndexByte(written, ',')+1:] // the nearest gateway's
	if trimBlanks(written) == "" {
		written, q.ownHost = q.call.Host, true
	}
	q.setHost(written)
}

// checkHost refuses a host that is neither a name nor an address. Programs disagree
// about which part of such a text is the host.
func (q *original) checkHost(o *Options) error {
	if q.oddHost && !o.KeepMalformed {
		return malformedHost("it is neither a name nor an address, with or without a port")
	}
	return nil
}

// checkAuthority compares the host in a target with the request's host, and uses it if
// the request has none. HTTP gives precedence to the target, and many programs to the
// header, so that two different hosts are malformed.
func (q *original) checkAuthority(authority string, o *Options) error {
	host := canonicalHost(authority)
	switch {
	case !o.KeepMalformed && (host == "" || !isHost(authority)):
		return malformedHost("the target's is neither a name nor an address, with or without a port")
	case q.host == "":
		q.host = host
	case q.ownHost: // the host of koalagate, which says nothing about the request
	case !o.KeepMalformed && host != q.host:
		return malformedHost("the target and the Host header name different hosts")
	}
	return nil
}

// canonicalHost returns a host in lower case without its port, the brackets of an IPv6
// address and a final dot, which does not change the host.
func canonicalHost(s string) string {
	host := trim(s)
	if inside, found := strings.CutPrefix(host, "["); found {
		host, _, _ = strings.Cut(inside, "]")
	} else if name, port, found := strings.Cut(host, ":"); found && strings.IndexByte(port, ':') < 0 {
		host = name
	}
	return lower(strings.TrimSuffix(host, "."))
}

// isHost reports whether s is empty, or a name or an address, with or without a port.
// An IPv6 address may lack its brackets if it has no port. Surrounding blanks do not
// matter.
func isHost(s string) bool {
	s = trimBlanks(s)
	if s == "" {
		return true
	}
	if inside, found := strings.CutPrefix(s, "["); found {
		address, port, closed := strings.Cut(inside, "]")
		return closed && isIPv6(address) && (port == "" || port[0] == ':' && isHostPort(port[1:]))
	}
	name, port, found := strings.Cut(s, ":")
	if found && strings.IndexByte(port, ':') >= 0 {
		return isIPv6(s)
	}
	return isName(strings.TrimSuffix(name, ".")) && isHostPort(port)
}

func isIPv6(s string) bool {
	address, err := netip.ParseAddr(s)
	return err == nil && address.Is6() && address.Zone() == ""
}

// isHostPort reports whether s is empty or a port.
func isHostPort(s string) bool { return s == "" || isPort(s) }

// isName reports whether s consists of labels of letters, digits, hyphens and
// underscores.
func isName(s string) bool {
	label := 0 // its length
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_':
			label++
		case c == '.' && label > 0:
			label = 0
		default:
			return false
		}
	}
	return label > 0
}

// trimBlanks removes the blanks that HTTP allows around the value of a header.
func trimBlanks(s string) string { return strings.Trim(s, " \t") }

// lower changes ASCII letters only. strings.ToLower would turn all bytes that are not
// UTF-8 into one character.
func lower(s string) string { return changeCase(s, 'A', 'a') }

// upper changes ASCII letters only. strings.ToUpper turns the long s into an S.
func upper(s string) string { return changeCase(s, 'a', 'A') }

// changeCase replaces the letters of the alphabet that begins with from by letters of
// the alphabet that begins with to. It returns s itself if there is none.
func changeCase(s string, from, to byte) string {
	for i := range len(s) {
		if s[i]-from < 26 {
			b := []byte(s)
			for ; i < len(b); i++ {
				if b[i]-from < 26 {
					b[i] += to - from
				}
			}
			return string(b)
		}
	}
	return s
}
