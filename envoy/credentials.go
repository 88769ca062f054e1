package envoy

import (
	"context"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// meteredCredentials meters connections after their handshake, above TLS.
type meteredCredentials struct {
	credentials.TransportCredentials
	meter  *meter
	failed func() // called after a failed handshake; may be nil
}

// meteredInfo carries the connection to the contexts of its calls.
type meteredInfo struct {
	credentials.AuthInfo
	conn *meteredConn
}

// isComplete reports whether all requests on the connection of a call have arrived. A
// request that arrives together with the header of its call is metered before the call
// begins.
func isComplete(ctx context.Context) bool {
	conn := connOf(ctx)
	return conn != nil && conn.held.Load() == 0
}

// connOf returns the connection of a call, nil if it is not metered.
func connOf(ctx context.Context) *meteredConn {
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(meteredInfo); ok {
			return info.conn
		}
	}
	return nil
}

// CertificateOf returns the certificate of a call's peer in DER form, nil without one.
func CertificateOf(ctx context.Context) []byte {
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(meteredInfo); ok {
			if tls, ok := info.AuthInfo.(credentials.TLSInfo); ok && len(tls.State.PeerCertificates) > 0 {
				return tls.State.PeerCertificates[0].Raw
			}
		}
	}
	return nil
}

// ServerHandshake does the handshake and returns the metered connection.
func (m meteredCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := m.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		if isTimeout(err) {
			m.meter.exceeded(BoundHandshake, raw.RemoteAddr())
		}
		if m.failed != nil {
			m.failed()
		}
		return conn, info, err
	}
	metered := m.meter.wrap(conn, raw)
	return metered, meteredInfo{info, metered}, nil
}

// Clone returns a copy.
func (m meteredCredentials) Clone() credentials.TransportCredentials {
	return meteredCredentials{m.TransportCredentials.Clone(), m.meter, m.failed}
}
