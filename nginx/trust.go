package nginx

import (
	"net"
	"net/http"
	"net/netip"
)

// privateRanges returns the peers that are trusted by default: loopback and the
// private networks.
func privateRanges() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("127.0.0.0/8"),
		netip.MustParsePrefix("::1/128"),
		netip.MustParsePrefix("10.0.0.0/8"),
		netip.MustParsePrefix("172.16.0.0/12"),
		netip.MustParsePrefix("192.168.0.0/16"),
		netip.MustParsePrefix("fc00::/7"),
	}
}

// trusts reports whether the peer may send checks. For a unix socket, the permissions
// of its file have decided that already.
func (s *server) trusts(r *http.Request) bool {
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && local.Network() == "unix" {
		return true
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && isIn(s.trusted, peer.Addr())
}

// isIn reports whether an address is in any of the blocks.
func isIn(blocks []netip.Prefix, address netip.Addr) bool {
	address = address.Unmap().WithZone("")
	for _, p := range blocks {
		if p.Contains(address) {
			return true
		}
	}
	return false
}
