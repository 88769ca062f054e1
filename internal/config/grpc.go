package config

import "time"

// GRPC contains the options of the gRPC address, on which Envoy calls.
type GRPC struct {
	// GRPCAddr is the listen address for Envoy: host:port, or unix:/path.
	GRPCAddr string `koanf:"grpc_addr" validate:"listen"`
	// GRPCMaxConnectionAge is the time after which the server asks a connection to
	// close, so that callers spread to instances that started later.
	GRPCMaxConnectionAge time.Duration `koanf:"grpc_max_connection_age" validate:"min=1s,max=24h"`
	// GRPCMaxConnectionAgeGrace is the time that calls of such a connection may
	// still take.
	GRPCMaxConnectionAgeGrace time.Duration `koanf:"grpc_max_connection_age_grace" validate:"min=100ms,max=10m"`
	// GRPCMaxConnections is the maximum number of connections. Above it, the
	// connection that has been silent longest is closed. The limit of open files
	// can lower this number and HTTPMaxConnections.
	GRPCMaxConnections int `koanf:"grpc_max_connections" validate:"min=1,max=1000000"`
	// GRPCMaxConnectionsPerPeer is the maximum number of connections from one
	// address. Above it, the one of them that has been silent longest is closed.
	GRPCMaxConnectionsPerPeer int `koanf:"grpc_max_connections_per_peer" validate:"min=1,max=1000000"`
	// GRPCMaxStreams is the maximum number of concurrent calls on one connection.
	GRPCMaxStreams uint32 `koanf:"grpc_max_streams" validate:"min=1,max=1000000"`
	// GRPCMaxMessage is the maximum size of a request message, in bytes.
	GRPCMaxMessage int `koanf:"grpc_max_message" validate:"min=4096,max=67108864"`
	// GRPCMaxHeader is the maximum size of a call's header, in bytes.
	GRPCMaxHeader uint32 `koanf:"grpc_max_header" validate:"min=4096,max=16777216"`
	// GRPCHandshakeTimeout is the maximum time for the handshakes of TLS and HTTP/2.
	GRPCHandshakeTimeout time.Duration `koanf:"grpc_handshake_timeout" validate:"min=100ms,max=1m"`
	// GRPCPingInterval is the minimum interval between pings of a caller. A
	// connection that pings more often is closed.
	GRPCPingInterval time.Duration `koanf:"grpc_ping_interval" validate:"min=100ms,max=1h"`
	// GRPCIdleTimeout is the time after which a connection without calls is asked to
	// close.
	GRPCIdleTimeout time.Duration `koanf:"grpc_idle_timeout" validate:"min=1s,max=24h"`
	// GRPCReceiveTimeout is the maximum time for a request message to arrive.
	GRPCReceiveTimeout time.Duration `koanf:"grpc_receive_timeout" validate:"min=100ms,max=10m"`
	// GRPCMaxUnfinished is the maximum memory, in bytes, of request messages on one
	// connection that have not arrived completely. A connection above it is closed.
	GRPCMaxUnfinished int `koanf:"grpc_max_unfinished" validate:"min=1048576,max=17179869184,gtefield=GRPCMaxMessage"`
	// GRPCMaxUnfinishedTotal is the same for all connections together. Above it, the
	// connection that holds the most is closed.
	GRPCMaxUnfinishedTotal int `koanf:"grpc_max_unfinished_total" validate:"max=17179869184,gtefield=GRPCMaxUnfinished"`
	// GRPCMaxResets is the maximum number of calls per second that one connection may
	// cancel, on average over two seconds. A connection above it is closed.
	GRPCMaxResets int `koanf:"grpc_max_resets" validate:"min=10,max=1000000"`
	// GRPCMaxSettings is the maximum number of SETTINGS frames per second on one
	// connection, on average over ten seconds. A connection above it is closed.
	GRPCMaxSettings int `koanf:"grpc_max_settings" validate:"min=1,max=1000000"`

	// GRPCStreamWorkers is the number of persistent goroutines for calls, which
	// saves each call the growth of a new stack. Further calls use goroutines of
	// their own; with 0 all calls do.
	GRPCStreamWorkers uint32 `koanf:"grpc_stream_workers" validate:"max=65536"`

	// GRPCTLSCert is the PEM file with the certificate of GRPCAddr, followed by
	// its intermediate certificates. Empty: no TLS.
	GRPCTLSCert string `koanf:"grpc_tls_cert" validate:"required_with=GRPCTLSKey GRPCTLSClientCA"`
	// GRPCTLSKey is the PEM file with the certificate's private key.
	GRPCTLSKey string `koanf:"grpc_tls_key" validate:"required_with=GRPCTLSCert"`
	// GRPCTLSClientCA is the PEM file with the authorities that must have issued
	// the callers' certificates. Empty: callers need none.
	GRPCTLSClientCA string `koanf:"grpc_tls_client_ca"`
}
