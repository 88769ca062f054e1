package mapping

import (
	"net/netip"
	"strings"

	"github.com/koalagate/koalagate/rules"
)

// parseAddress reads an IP address with or without a port, an IPv6 address
// with or without brackets. An IPv4-mapped address is the IPv4 address. The
// zone goes: it names an interface of whoever wrote it, not a caller.
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

// cutPort takes brackets and port off an address, and tells whether what it
// took was in order.
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

// addressText is the canonical text of address; the part of written that spells
// it so already is returned in its place, which saves the allocation.
func addressText(address netip.Addr, written string) string {
	var buffer [64]byte
	text := address.AppendTo(buffer[:0])
	if host, _ := cutPort(trim(written)); string(text) == host {
		return host
	}
	return string(text)
}

// networkText is the address of the network that a client-ip source asks for.
func networkText(address netip.Addr, s *rules.ParamSource) string {
	bits := s.V6
	if address.Is4() {
		bits = s.V4
	}
	network, err := address.Prefix(bits)
	if err != nil {
		return "" // no such prefix; the rule file's parser lets none pass
	}
	return network.Addr().String()
}

// forwardedElement is the element of an X-Forwarded-For list that the hops
// rightmost ones vouch for; "" if the list is too short. Only the right end
// was written by gateways, so that is where counting begins.
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

// lastElement is the last element of a header that several gateways may have
// added to: the nearest one's word.
func lastElement(list string) string {
	return forwardedElement(list, 0)
}

// canonicalHost is a host in lower case, without its port, an IPv6 address
// without its brackets, and without the final dot that makes no other host.
func canonicalHost(s string) string {
	host := trim(s)
	if inside, found := strings.CutPrefix(host, "["); found {
		host, _, _ = strings.Cut(inside, "]")
	} else if name, port, found := strings.Cut(host, ":"); found && strings.IndexByte(port, ':') < 0 {
		host = name
	}
	return lower(strings.TrimSuffix(host, "."))
}

// lower changes ASCII letters alone, where strings.ToLower would fold all that
// is not UTF-8 into one character.
func lower(s string) string {
	for i := range len(s) {
		if 'A' <= s[i] && s[i] <= 'Z' {
			b := []byte(s)
			for ; i < len(b); i++ {
				if 'A' <= b[i] && b[i] <= 'Z' {
					b[i] += 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return s
}
