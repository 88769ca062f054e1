package mapping

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/koalagate/koalagate/rules"
)

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
