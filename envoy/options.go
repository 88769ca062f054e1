package envoy

import (
	"cmp"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/koalagate/koalagate/internal/certificates"
)

// Options configure the front. A field that is zero or negative means the default that its
// comment states.
type Options struct {
	// MaxConnectionAge is the age at which a connection is drained. Each Envoy
	// worker keeps one connection, so without a maximum age an instance that starts
	// later receives no calls. The default is no maximum.
	MaxConnectionAge time.Duration
	// MaxConnectionAgeGrace is the time that calls in progress then have to finish.
	// The default is 10 s.
	MaxConnectionAgeGrace time.Duration
	// KeepaliveMinTime is the minimum interval between pings of a caller; a caller
	// that pings more often loses its connection. The default is 5 s: gRPC's own
	// default, 5 min, would disconnect an Envoy with a common connection_keepalive.
	KeepaliveMinTime time.Duration
	// IdleTimeout is the time after which a connection without calls is drained.
	// The default is 5 min.
	IdleTimeout time.Duration
	// CallTimeout is the maximum time for a request to arrive that does not arrive together
	// with the header of its call. A call of a generated service, such as health, must end in
	// that time. The default is 6 s.
	CallTimeout time.Duration
	// MaxMessageBytes is the maximum size of a request. The default is 512 KiB. A rejected
	// request may fail open, so clients of the gateway must not be able to exceed it: Envoy
	// admits 60 KiB of headers, sends a path twice to ext_authz, and may send one header in
	// several descriptors to the rate limit service.
	MaxMessageBytes int
	// MaxStreamMessageBytes is the maximum size of a message of a service that
	// RegisterStreams registers. The default is 16 MiB: Envoy's reports of quotas grow with
	// its buckets, and a rejected one comes again every 5 s.
	MaxStreamMessageBytes int
	// MaxUnfinished is the maximum memory, in bytes, of requests on one connection
	// that have not arrived completely. The default is 64 MiB.
	MaxUnfinished int64
	// MaxUnfinishedTotal is the maximum for all connections together: above it, the
	// connection that holds the most is ended. The default is 128 MiB.
	MaxUnfinishedTotal int64
	// MaxResets is the maximum number of calls per second that one connection may
	// cancel, on average over two seconds. Canceled calls do not count as concurrent,
	// so that without this bound a peer could begin calls without end. The default is
	// 10,000: an Envoy worker cancels calls that time out.
	MaxResets int
	// MaxSettings is the maximum number of SETTINGS frames per second on one
	// connection, on average over ten seconds. The default is 10.
	MaxSettings int
	// MaxStreams is the maximum number of concurrent calls per connection; callers
	// delay further calls. The default is 1024.
	MaxStreams uint32
	// MaxHeaderBytes is the maximum size of the gRPC metadata of a call. The default is
	// 64 KiB: Envoy sends less than 1 kB.
	MaxHeaderBytes uint32
	// HandshakeTimeout is the maximum duration of the handshakes of TLS and HTTP/2. A
	// drain waits for handshakes in progress, so it must be well below the time of a
	// drain. The default is 3 s.
	HandshakeTimeout time.Duration
	// StreamWorkers is the number of goroutines that are reused for calls, which
	// saves each call the growth of a new stack. Further calls run in goroutines of
	// their own; with 0, all do.
	StreamWorkers uint32
	// DrainWait is the time for which a drain keeps answering after it reports
	// NOT_SERVING, so that health checks notice before connections end. The default
	// is not to wait.
	DrainWait time.Duration
	// Certificates enable TLS. The default is plain text.
	Certificates *certificates.Certificates
	// Exceeded is called when a bound ends or refuses a connection or a call, with the
	// address of the peer, which may be nil for a call. It must return at once. It may
	// be nil.
	Exceeded func(Bound, net.Addr)
	// Watch observes the unary calls.
	Watch Watch
	// Logger receives panics; the default is slog.Default.
	Logger *slog.Logger
}

// The limits that are not configurable.
const (
	// deadPeerAfter is the idle time after which a connection is pinged, and
	// pingTimeout the time to answer. The connection of a caller that disappeared is
	// freed after their sum.
	deadPeerAfter = time.Minute
	pingTimeout   = 20 * time.Second
)

// withDefaults replaces fields that are not positive by their defaults.
func withDefaults(o Options) Options {
	o.MaxConnectionAge = max(o.MaxConnectionAge, 0)
	o.MaxConnectionAgeGrace = positive(o.MaxConnectionAgeGrace, 10*time.Second)
	o.KeepaliveMinTime = positive(o.KeepaliveMinTime, 5*time.Second)
	o.IdleTimeout = positive(o.IdleTimeout, 5*time.Minute)
	o.CallTimeout = positive(o.CallTimeout, 6*time.Second)
	o.MaxMessageBytes = positive(o.MaxMessageBytes, 512<<10)
	o.MaxStreamMessageBytes = positive(o.MaxStreamMessageBytes, 16<<20)
	o.MaxUnfinished = positive(o.MaxUnfinished, 64<<20)
	o.MaxUnfinishedTotal = positive(o.MaxUnfinishedTotal, 128<<20)
	o.MaxResets = positive(o.MaxResets, 10_000)
	o.MaxSettings = positive(o.MaxSettings, 10)
	o.MaxStreams = positive(o.MaxStreams, 1024)
	o.MaxHeaderBytes = positive(o.MaxHeaderBytes, 64<<10)
	o.HandshakeTimeout = positive(o.HandshakeTimeout, 3*time.Second)
	o.DrainWait = max(o.DrainWait, 0)
	if o.Exceeded == nil {
		o.Exceeded = func(Bound, net.Addr) {}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

// positive returns value, or standard if value is not positive.
func positive[T cmp.Ordered](value, standard T) T {
	var zero T
	if value <= zero {
		return standard
	}
	return value
}

// credentials returns TLS or plain text, as configured.
func (o *Options) credentials() credentials.TransportCredentials {
	if o.Certificates == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(o.Certificates.ServerConfig())
}
