package service

import (
	"bytes"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/koalagate/koalagate/internal/certificates"
)

// watchingListener reports the bounds by which net/http ends connections, which it does
// not report itself.
type watchingListener struct {
	net.Listener
	exceeded func(string, net.Addr)
}

// Accept returns the next connection.
func (l watchingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &watchedConn{Conn: conn, exceeded: l.exceeded}
	c.isOwed.Store(true) // a request, from the beginning
	return c, nil
}

// watchedConn is a connection of a watchingListener.
type watchedConn struct {
	net.Conn
	exceeded func(string, net.Addr)
	// isOwed is true while a request is arriving or is being answered, and false on an
	// idle connection.
	isOwed atomic.Bool
}

// Read reads a part of a request. A deadline of net/http ends the reading of a request,
// or an idle connection, or the wait for a next request while one is answered; only the
// first happens before an answer.
func (c *watchedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	switch {
	case n > 0:
		c.isOwed.Store(true)
	case errors.Is(err, os.ErrDeadlineExceeded) && c.isOwed.CompareAndSwap(true, false): // once: net/http reads again
		c.exceeded(boundHTTPReceive, c.RemoteAddr())
	}
	return n, err
}

// EndAt implements certificates.Ending.
func (c *watchedConn) EndAt(at time.Time) {
	if below, ends := c.Conn.(certificates.Ending); ends {
		below.EndAt(at)
	}
}

// tooLarge begins the answer of net/http to a header above its maximum size. No door
// answers with this status.
var tooLarge = []byte("HTTP/1.1 431 ")

// Write writes a part of an answer.
func (c *watchedConn) Write(b []byte) (int, error) {
	c.isOwed.Store(false)
	if bytes.HasPrefix(b, tooLarge) {
		c.exceeded(boundHTTPHeader, c.RemoteAddr())
	}
	n, err := c.Conn.Write(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.exceeded(boundHTTPSend, c.RemoteAddr())
	}
	return n, err
}
