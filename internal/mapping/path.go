package mapping

import (
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
	if !strings.ContainsAny(s, "%+") {
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
