package main

import (
	"context"
	"net"
	"sync/atomic"
	"time"
)

// wire counts the bytes of connections.
type wire struct{ in, out atomic.Int64 }

type wireKey struct{}

// counting has the connections that are dialled with the context counted.
func (w *wire) counting(ctx context.Context) context.Context {
	return context.WithValue(ctx, wireKey{}, w)
}

// countedConn is a connection with a wire.
type countedConn struct {
	net.Conn
	wire *wire
}

// Read counts what comes in.
func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.wire.in.Add(int64(n))
	return n, err
}

// Write counts what goes out.
func (c *countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.wire.out.Add(int64(n))
	return n, err
}

// dial connects to a program of this machine.
func dial(ctx context.Context, address string) (net.Conn, error) {
	begun, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(begun, "tcp", address)
	if w, counts := ctx.Value(wireKey{}).(*wire); counts && err == nil {
		return &countedConn{conn, w}, nil
	}
	return conn, err
}
