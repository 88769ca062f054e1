package mapping

import (
	"net/netip"
	"strings"
)

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
