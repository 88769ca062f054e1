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

// isComplete reports whether all requests on the connection of a call have arrived, apart from
// streams that stay open. A request that arrives together with the header of its call is metered
// before the call begins.
func isComplete(ctx context.Context) bool {
	conn := connOf(ctx)
	return conn != nil && conn.held.Load() == conn.staying.Load()
}

// infoOf returns what the handshake left of the connection of a call, the zero value if that is
// not metered.
func infoOf(ctx context.Context) meteredInfo {
	p, found := peer.FromContext(ctx)
	if !found {
		return meteredInfo{}
	}
	info, _ := p.AuthInfo.(meteredInfo)
	return info
}

// connOf returns the connection of a call, nil if it is not metered.
func connOf(ctx context.Context) *meteredConn { return infoOf(ctx).conn }

// CertificateOf returns the certificate of a call's peer in DER form, nil without one.
func CertificateOf(ctx context.Context) []byte {
	tls, isTLS := infoOf(ctx).AuthInfo.(credentials.TLSInfo)
	if !isTLS || len(tls.State.PeerCertificates) == 0 {
		return nil
	}
	return tls.State.PeerCertificates[0].Raw
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
