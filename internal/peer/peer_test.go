package peer

import (
	"net"
	"net/http"
	"net/netip"
	"testing"
)

func TestPeersAreCountedByNetwork(t *testing.T) {
	for address, want := range map[string]string{
		"203.0.113.9:1":            "203.0.113.9",
		"[::ffff:203.0.113.9]:1":   "203.0.113.9",
		"[2001:db8:1:2:3:4:5:6]:1": "2001:db8:1:2::",
		"[fe80::1%eth0]:1":         "fe80::",
		"[::1]:1":                  "::",
	} {
		tcp := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))
		of, ofRequest := OfAddress(tcp), Of(&http.Request{RemoteAddr: address})
		if of.String() != want || ofRequest != of {
			t.Errorf("%s is counted as %v, in a request as %v; want %s", address, of, ofRequest, want)
		}
	}
	if got := OfAddress(&net.UnixAddr{Name: "@"}); got.IsValid() || Of(&http.Request{RemoteAddr: "@"}).IsValid() {
		t.Errorf("a Unix socket is counted as %v; want no address", got)
	}
}
