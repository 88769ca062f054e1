package service

import (
	"context"
	"net"
	"net/netip"
	"sync"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/peer"
)

// httpWaits bounds the checks at the HTTP address that wait for their turns. Each keeps a
// connection: above its limits a listener closes the connection that has been silent
// longest, which belongs to a waiting check, and a gateway that fails open then lets the
// request through. So waiting checks get half of the connections, in all and of one address.
type httpWaits struct {
	limit connectionShare

	mu    sync.Mutex
	all   int
	peers map[netip.Addr]int
}

// connectionShare is a number of connections, in all and from one address.
type connectionShare struct{ all, peer int }

func newHTTPWaits(connections, perPeer int) *httpWaits {
	share := connectionShare{all: max(1, connections/2), peer: max(1, min(connections, perPeer)/2)}
	return &httpWaits{limit: share, peers: make(map[netip.Addr]int)}
}

// peerWaits is the limit of the checks of one peer.
type peerWaits struct {
	waits *httpWaits
	peer  netip.Addr // invalid for a Unix socket, whose checks have only the limit in all
}

// waitsKey is the key of the limit in the context of a connection.
type waitsKey struct{}

// connect returns the context of a connection.
func (w *httpWaits) connect(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, waitsKey{}, &peerWaits{w, peer.OfAddress(conn.RemoteAddr())})
}

// Enter admits one more waiting check, or returns false.
func (p *peerWaits) Enter() bool {
	w := p.waits
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all >= w.limit.all || p.peer.IsValid() && w.peers[p.peer] >= w.limit.peer {
		return false
	}
	w.all++
	if p.peer.IsValid() {
		w.peers[p.peer]++
	}
	return true
}

// Leave ends the wait of a check.
func (p *peerWaits) Leave() {
	w := p.waits
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all--
	if !p.peer.IsValid() {
		return
	}
	if w.peers[p.peer]--; w.peers[p.peer] <= 0 {
		delete(w.peers, p.peer)
	}
}

// httpWaitLimit returns the limit of the connection of a check at the HTTP address.
func httpWaitLimit(ctx context.Context) engine.WaitLimit {
	if waits, ok := ctx.Value(waitsKey{}).(*peerWaits); ok {
		return waits
	}
	return nil
}
