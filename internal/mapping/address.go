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
