package store

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// keepAlive finds within a minute that the other end of a connection that
// nobody uses is no more.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3}

type dial func(ctx context.Context, network, addr string) (net.Conn, error)

// netDialer makes connections within a time. Each looks the name up for itself:
// who shares a resolver joins a look that is under way, and where a question to
// a name server was lost that takes five seconds, however short the time of
// each who waits for it.
func netDialer(timeout time.Duration) *net.Dialer {
	shared := net.DefaultResolver
	return &net.Dialer{
		Timeout:         timeout,
		KeepAliveConfig: keepAlive,
		Resolver:        &net.Resolver{PreferGo: shared.PreferGo, StrictErrors: shared.StrictErrors, Dial: shared.Dial},
	}
}

// dialer makes connections without TLS.
func dialer(timeout time.Duration) dial {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		return netDialer(timeout).DialContext(ctx, network, addr)
	}
}

// dialer makes connections with TLS, by the files as they are then.
func (f *TLSFiles) dialer(timeout time.Duration) dial {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		c, err := f.config(host)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		plain, err := netDialer(timeout).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		conn := tls.Client(plain, c)
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = plain.Close()
			return nil, &handshakeError{err}
		}
		return conn, nil
	}
}

// handshakeError tells a TLS handshake that fails from a call that does: a Redis
// without TLS says nothing to either, and the remedies differ.
type handshakeError struct{ err error }

// Error is the error of the handshake by that name.
func (e *handshakeError) Error() string { return "TLS handshake: " + e.err.Error() }

// Unwrap is the error of the handshake itself.
func (e *handshakeError) Unwrap() error { return e.err }
