package main

import (
	"context"
	"net"
	"sync/atomic"
	"time"
)

// wire counts the bytes on connections.
type wire struct{ in, out atomic.Int64 }

type wireKey struct{}

// counting returns a context for which dial counts the bytes of connections.
func (w *wire) counting(ctx context.Context) context.Context {
	return context.WithValue(ctx, wireKey{}, w)
}

// countedConn is a connection whose bytes are counted.
type countedConn struct {
	net.Conn
	wire *wire
}

// Read reads from the connection and counts the bytes.
func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.wire.in.Add(int64(n))
	return n, err
}

// Write writes to the connection and counts the bytes.
func (c *countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.wire.out.Add(int64(n))
	return n, err
}

// dial connects to a program on this machine.
func dial(ctx context.Context, address string) (net.Conn, error) {
	begun, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(begun, "tcp", address)
	if w, counts := ctx.Value(wireKey{}).(*wire); counts && err == nil {
		return &countedConn{conn, w}, nil
	}
	return conn, err
}
