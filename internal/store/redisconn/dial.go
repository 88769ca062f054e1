package redisconn

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// keepAlive detects within a minute that the peer of an unused connection has
// disappeared.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3}

// dialFunc makes a connection.
type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// netDialer returns a dialer with a timeout. Each has a resolver of its own: dials
// that share a resolver join a lookup that is under way, and when a query to a
// name server is lost, that lookup takes five seconds, however short the
// timeouts of the dials that wait for it.
func netDialer(timeout time.Duration) *net.Dialer {
	shared := net.DefaultResolver
	return &net.Dialer{
		Timeout:         timeout,
		KeepAliveConfig: keepAlive,
		Resolver:        &net.Resolver{PreferGo: shared.PreferGo, StrictErrors: shared.StrictErrors, Dial: shared.Dial},
	}
}

// dialer returns a function that connects without TLS.
func dialer(timeout time.Duration) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		return netDialer(timeout).DialContext(ctx, network, addr)
	}
}

// dialer returns a function that connects with TLS and reads the files each time.
func (f *TLSFiles) dialer(timeout time.Duration) dialFunc {
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

// handshakeError marks the error of a failed TLS handshake. A Redis without TLS
// leaves both a handshake and a call unanswered, and the remedies differ.
type handshakeError struct{ err error }

func (e *handshakeError) Error() string { return "TLS handshake: " + e.err.Error() }

// Unwrap returns the error of the handshake.
func (e *handshakeError) Unwrap() error { return e.err }
