package service

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/koalagate/koalagate/internal/config"
)

// maxAdminConnections is the maximum number of connections of the admin address: health
// checks, monitoring and operators.
const maxAdminConnections = 64

// maxReserve is the maximum number of descriptors that connections leave to the rest of
// the process: the pool of Redis, which has ten connections per processor and node,
// rule files, logs and listeners.
const maxReserve = 512

// connectionLimits are the maximum numbers of connections of the three addresses.
type connectionLimits struct{ grpc, http, admin int }

// limitConnections returns the configured limits, lowered so that connections use at
// most descriptors less a reserve: three quarters of them, at most maxReserve. The gRPC and the HTTP address each get half of the
// rest, and what the other does not need.
func limitConnections(c *config.Config, descriptors int) connectionLimits {
	available := descriptors - min(descriptors*3/4, maxReserve)
	admin := max(1, min(maxAdminConnections, available/8))
	rest := available - admin
	return connectionLimits{
		grpc:  max(1, min(c.GRPCMaxConnections, max(rest/2, rest-c.HTTPMaxConnections))),
		http:  max(1, min(c.HTTPMaxConnections, max(rest/2, rest-c.GRPCMaxConnections))),
		admin: admin,
	}
}

// maxDescriptors returns the number of files that the process may open. Go has raised
// the soft limit to the hard one.
func maxDescriptors() int {
	const unknown = 1024
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return unknown
	}
	return int(min(limit.Cur, 1<<30))
}

// limitedListener bounds the number of open connections. Above it, the connection that
// has been silent longest makes room: idle peers cannot keep gateways out.
type limitedListener struct {
	net.Listener
	limit int
	// exceeded is called for each connection that made room.
	exceeded func(net.Addr)

	mu    sync.Mutex
	conns map[*limitedConn]struct{}
}

func newLimitedListener(l net.Listener, limit int, exceeded func(net.Addr)) *limitedListener {
	return &limitedListener{Listener: l, limit: limit, exceeded: exceeded, conns: make(map[*limitedConn]struct{})}
}

// Accept returns the next connection.
func (l *limitedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		if isOutOfFiles(err) {
			l.makeRoom(0) // the server tries again
		}
		return nil, err
	}
	l.makeRoom(l.limit)
	c := &limitedConn{Conn: conn, listener: l}
	c.heard.Store(time.Now().UnixNano())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = struct{}{}
	return c, nil
}

// open returns the number of open connections.
func (l *limitedListener) open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns)
}

// isOutOfFiles reports whether the process or the system has no free descriptor.
func isOutOfFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// makeRoom closes the connection that has been silent longest if limit or more are open.
func (l *limitedListener) makeRoom(limit int) {
	l.mu.Lock()
	var silent *limitedConn
	if len(l.conns) >= limit {
		for c := range l.conns {
			if silent == nil || c.heard.Load() < silent.heard.Load() {
				silent = c
			}
		}
	}
	l.mu.Unlock()
	if silent != nil {
		l.exceeded(silent.RemoteAddr())
		_ = silent.Close() // its server closes it again
	}
}

// limitedConn is a connection of a limitedListener.
type limitedConn struct {
	net.Conn
	listener *limitedListener
	heard    atomic.Int64 // when the peer last sent anything, in Unix nanoseconds
}

// Read reads what the peer has sent.
func (c *limitedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.heard.Store(time.Now().UnixNano())
	}
	return n, err
}

// Close closes the connection, which no longer counts.
func (c *limitedConn) Close() error {
	c.listener.mu.Lock()
	delete(c.listener.conns, c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// limitListeners bounds the connections of the three addresses.
func (s *Service) limitListeners() {
	files := maxDescriptors()
	limits := limitConnections(s.config, files)
	if limits.grpc < s.config.GRPCMaxConnections || limits.http < s.config.HTTPMaxConnections {
		s.logger.Info("the limit of open files lowers the limits of connections", "files", files,
			"grpc", limits.grpc, "http", limits.http, "admin", limits.admin, "remedy", raiseFiles)
	}
	for _, one := range []struct {
		listener *net.Listener
		limit    int
		bound    string
	}{
		{&s.listeners.grpc, limits.grpc, boundGRPCConnections},
		{&s.listeners.http, limits.http, boundHTTPConnections},
		{&s.listeners.admin, limits.admin, boundAdminConnections},
	} {
		*one.listener = newLimitedListener(*one.listener, one.limit, func(peer net.Addr) { s.bounds.exceeded(one.bound, peer) })
	}
}
