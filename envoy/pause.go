package envoy

import (
	"maps"
	"net"
	"net/netip"
	"time"
)

// pauseTime is the time for which new connections of a peer are not read after one that
// exceeded a bound: a peer that opens many calls and is disconnected at once would
// otherwise keep the processor busy by connecting again.
const pauseTime = time.Second

// pause pauses new connections of a peer.
func (m *meter) pause(peer net.Addr) {
	network, known := networkOf(peer)
	if !known {
		return
	}
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.pauses, func(_ netip.Prefix, end time.Time) bool { return now.After(end) })
	m.pauses[network] = now.Add(pauseTime)
}

// rest returns a timer for the rest of a peer's pause, or nil. m.mu is locked.
func (m *meter) rest(peer net.Addr) *time.Timer {
	if len(m.pauses) == 0 {
		return nil
	}
	network, _ := networkOf(peer)
	if rest := time.Until(m.pauses[network]); rest > 0 {
		return time.NewTimer(rest)
	}
	return nil
}

// waitForRest waits for the rest of a pause, or until the connection is closed.
func (c *meteredConn) waitForRest() {
	if c.rest == nil {
		return
	}
	select {
	case <-c.rest.C:
	case <-c.done:
		c.rest.Stop()
	}
	c.rest = nil
}

// networkOf returns the IPv4 address or the /64 of the IPv6 address of a peer. Peers of a
// Unix socket have none.
func networkOf(peer net.Addr) (network netip.Prefix, known bool) {
	tcp, isTCP := peer.(*net.TCPAddr)
	if !isTCP {
		return netip.Prefix{}, false
	}
	address, known := netip.AddrFromSlice(tcp.IP)
	if !known {
		return netip.Prefix{}, false
	}
	address = address.Unmap()
	network, err := address.Prefix(min(address.BitLen(), 64))
	return network, err == nil
}
