package service

import (
	"container/heap"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/koalagate/koalagate/internal/peer"
)

// listenerLimit is the maximum number of open connections of a listener, in all and
// from one address, with the names of the bounds.
type listenerLimit struct {
	all     int
	bound   string
	peer    int
	perPeer string
}

// limitedListener bounds the number of open connections. Above it, the connection that
// has been silent longest makes room: idle peers cannot keep gateways out.
type limitedListener struct {
	net.Listener
	limit listenerLimit
	// exceeded is called with the bound for each connection that made room.
	exceeded func(string, net.Addr)

	mu    sync.Mutex
	conns silence
	peers map[netip.Addr]*silence // those with open connections, as package peer counts them
}

func newLimitedListener(l net.Listener, limit listenerLimit, exceeded func(string, net.Addr)) *limitedListener {
	return &limitedListener{
		Listener: l, limit: limit, exceeded: exceeded,
		conns: silence{which: ofAll}, peers: make(map[netip.Addr]*silence),
	}
}

// Accept returns the next connection.
func (l *limitedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		if isOutOfFiles(err) {
			l.closeSilent(l.limit.bound, &l.conns) // the server tries again
		}
		return nil, err
	}
	c := &limitedConn{Conn: conn, listener: l, peer: peer.OfAddress(conn.RemoteAddr())}
	c.heard.Store(time.Now().UnixNano())
	l.makeRoom(c.peer)
	l.mu.Lock()
	defer l.mu.Unlock()
	heap.Push(&l.conns, c)
	if c.peer.IsValid() {
		same := l.peers[c.peer]
		if same == nil {
			same = &silence{which: ofPeer}
			l.peers[c.peer] = same
		}
		heap.Push(same, c)
	}
	return c, nil
}

// open returns the number of open connections.
func (l *limitedListener) open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conns.Len()
}

// isOutOfFiles reports whether the process or the system has no free descriptor.
func isOutOfFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// makeRoom closes a connection if there is no room for another one of the peer.
func (l *limitedListener) makeRoom(of netip.Addr) {
	l.mu.Lock()
	all, same := l.conns.Len(), l.peers[of]
	full := same != nil && same.Len() >= l.limit.peer
	l.mu.Unlock()
	switch {
	case full:
		l.closeSilent(l.limit.perPeer, same)
	case all >= l.limit.all:
		l.closeSilent(l.limit.bound, &l.conns)
	}
}

// closeSilent closes the connection that has been silent longest, and reports the bound.
func (l *limitedListener) closeSilent(bound string, conns *silence) {
	l.mu.Lock()
	silent := conns.longest()
	l.mu.Unlock()
	if silent != nil {
		l.exceeded(bound, silent.RemoteAddr())
		_ = silent.Close() // its server closes it again
	}
}

// limitedConn is a connection of a limitedListener.
type limitedConn struct {
	net.Conn
	listener *limitedListener
	peer     netip.Addr
	heard    atomic.Int64 // when the peer last sent anything, in Unix nanoseconds
	end      atomic.Int64 // from when on nothing is read, in Unix nanoseconds; 0 for never
	noted    [2]int64     // heard, when it was last compared in each silence
	place    [2]int       // in each silence; -1 after the connection has left it
}

// errExpired ends a connection whose peer has called with a certificate that has expired meanwhile.
var errExpired = errors.New("the certificate of the peer has expired")

// EndAt implements certificates.Ending. Answers in progress are still sent.
func (c *limitedConn) EndAt(at time.Time) { c.end.Store(at.UnixNano()) }

// Read reads from the peer.
func (c *limitedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		now := time.Now().UnixNano()
		if end := c.end.Load(); end != 0 && now >= end {
			return 0, errExpired
		}
		c.heard.Store(now)
	}
	return n, err
}

// Close closes the connection, which no longer counts.
func (c *limitedConn) Close() error {
	l := c.listener
	l.mu.Lock()
	if c.place[ofAll] >= 0 {
		heap.Remove(&l.conns, c.place[ofAll])
		if same := l.peers[c.peer]; same != nil {
			heap.Remove(same, c.place[ofPeer])
			if same.Len() == 0 {
				delete(l.peers, c.peer)
			}
		}
	}
	l.mu.Unlock()
	return c.Conn.Close()
}
