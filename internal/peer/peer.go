// Package peer reads the addresses of the peers that send requests over HTTP.
package peer

import (
	"net"
	"net/http"
	"net/netip"
)

// PrivateRanges returns loopback and the private networks, the peers that are trusted by
// default.
func PrivateRanges() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("127.0.0.0/8"),
		netip.MustParsePrefix("::1/128"),
		netip.MustParsePrefix("10.0.0.0/8"),
		netip.MustParsePrefix("172.16.0.0/12"),
		netip.MustParsePrefix("192.168.0.0/16"),
		netip.MustParsePrefix("fc00::/7"),
	}
}

// IsTrusted reports whether the peer of a request is in any of the blocks. For a Unix
// socket, the permissions of its file have decided that already.
func IsTrusted(r *http.Request, blocks []netip.Prefix) bool {
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && local.Network() == "unix" {
		return true
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && IsIn(blocks, peer.Addr())
}

// IsIn reports whether an address is in any of the blocks.
func IsIn(blocks []netip.Prefix, address netip.Addr) bool {
	address = address.Unmap().WithZone("")
	for _, p := range blocks {
		if p.Contains(address) {
			return true
		}
	}
	return false
}

// Of returns the address by which the peer of a request is counted: of an IPv6 address its
// /64 network, which one machine usually has for itself. It is the zero address for a Unix
// socket.
func Of(r *http.Request) netip.Addr {
	at, _ := netip.ParseAddrPort(r.RemoteAddr) // zero for a Unix socket
	return counted(at)
}

// OfAddress is Of for the remote address of a connection.
func OfAddress(a net.Addr) netip.Addr {
	tcp, _ := a.(*net.TCPAddr) // nil for a Unix socket
	return counted(tcp.AddrPort())
}

func counted(at netip.AddrPort) netip.Addr {
	address := at.Addr().Unmap().WithZone("")
	if address.Is6() {
		network, _ := address.Prefix(64) // valid for every IPv6 address
		address = network.Addr()
	}
	return address
}
