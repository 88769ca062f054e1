// Package envoy is the gRPC front that Envoy's two doors are registered on:
// one server and one port, with health, reflection, bounds and a drain.
package envoy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/koalagate/koalagate/internal/wire"
)

// Options are the bounds of the front. A field that is zero takes the default
// that it names.
type Options struct {
	// MaxConnectionAge is when a connection is asked to end. One Envoy worker
	// is one connection, so without an age an instance that starts later gets
	// no work. The default is never.
	MaxConnectionAge time.Duration
	// MaxConnectionAgeGrace is what calls under way then still get; the
	// default is 10 s.
	MaxConnectionAgeGrace time.Duration
	// KeepaliveMinTime is how often a caller may ping; one that does so more
	// often loses its connection. The default is 5 s: grpc's own, 5 min, would
	// cut off an Envoy with an ordinary connection_keepalive.
	KeepaliveMinTime time.Duration
	// MaxMessageBytes bounds a request. The default is 4 MiB: Envoy sends the
	// body where it is told to, and a refused check may fail open.
	MaxMessageBytes int
	// MaxStreams bounds the calls at a time of one connection; callers hold
	// back what is above. The default is 1024.
	MaxStreams uint32
	// StreamWorkers is the number of goroutines that stay to carry out calls,
	// which spares each call the growth of a new stack. Calls beyond it get
	// goroutines of their own, and with 0 all do.
	StreamWorkers uint32
	// DrainWait is how long a drain goes on answering after it has reported
	// NOT_SERVING, so that health checks notice before connections end. The
	// default is not to wait.
	DrainWait time.Duration
	// Certificates make the front speak TLS. The default is plain text.
	Certificates *Certificates
	// Logger receives panics; the default is slog.Default.
	Logger *slog.Logger
}

// The bounds that nobody has had a reason to set.
const (
	// maxHeaderBytes bounds the gRPC metadata of a call; Envoy's is below 1 kB
	// and grpc's default 16 MiB.
	maxHeaderBytes = 64 << 10
	// deadPeerAfter is when a silent connection is pinged, and pingTimeout how
	// long the answer may take: a caller that vanished without a word is gone
	// from memory after both.
	deadPeerAfter = time.Minute
	pingTimeout   = 20 * time.Second
	// handshakeTimeout bounds how long a connection may take to begin. A drain
	// waits for those that have not, so it must be well below a drain's time.
	handshakeTimeout = 3 * time.Second
)

// Server is the front. Register the services on it, then Serve.
type Server struct {
	grpc      *grpc.Server
	health    *health.Server
	drainWait time.Duration
	// endStreams ends all streams, and any that begins later.
	endStreams context.CancelFunc
}

var (
	_ grpc.ServiceRegistrar = (*Server)(nil)
	_ wire.Front            = (*Server)(nil)
)

// NewServer returns a front with health and reflection and nothing else yet.
func NewServer(o Options) *Server {
	o = withDefaults(o)
	streams, endStreams := context.WithCancel(context.Background())
	s := &Server{health: health.NewServer(), drainWait: o.DrainWait, endStreams: endStreams}
	g := &guard{
		logger:  o.Logger,
		atDrain: func(f func()) func() bool { return context.AfterFunc(streams, f) },
	}
	s.grpc = grpc.NewServer(
		grpc.Creds(o.credentials()),
		grpc.UnaryInterceptor(g.unary),
		grpc.StreamInterceptor(g.stream),
		grpc.MaxRecvMsgSize(o.MaxMessageBytes),
		grpc.MaxConcurrentStreams(o.MaxStreams),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.NumStreamWorkers(o.StreamWorkers),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime:             o.KeepaliveMinTime,
			PermitWithoutStream: true,
		}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge:      o.MaxConnectionAge,
			MaxConnectionAgeGrace: o.MaxConnectionAgeGrace,
			Time:                  deadPeerAfter,
			Timeout:               pingTimeout,
		}),
	)
	healthv1.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	return s
}

func withDefaults(o Options) Options {
	if o.MaxConnectionAgeGrace == 0 {
		o.MaxConnectionAgeGrace = 10 * time.Second
	}
	if o.KeepaliveMinTime == 0 {
		o.KeepaliveMinTime = 5 * time.Second
	}
	if o.MaxMessageBytes == 0 {
		o.MaxMessageBytes = 4 << 20
	}
	if o.MaxStreams == 0 {
		o.MaxStreams = 1024
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

// credentials are how connections begin.
func (o *Options) credentials() credentials.TransportCredentials {
	if o.Certificates == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(o.Certificates.config())
}

// RegisterService puts a service on the front, and its name into the health
// service as SERVING. It must be called before Serve.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, service any) {
	s.grpc.RegisterService(desc, service)
	s.health.SetServingStatus(desc.ServiceName, healthv1.HealthCheckResponse_SERVING)
}

// RegisterWire registers a service that works on messages in wire form, like
// RegisterService. Only this server's codec supports such services.
func (s *Server) RegisterWire(service *wire.Service) {
	s.RegisterService(service.Description(), service)
}

// Serve answers calls on l, which it closes, until Drain or Stop. It may be
// called for several listeners at a time.
func (s *Server) Serve(l net.Listener) error {
	if err := s.grpc.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serving gRPC on %s: %w", l.Addr(), err)
	}
	return nil
}

// Drain ends the front without failing a call: it reports NOT_SERVING, waits
// DrainWait, asks all connections to end and lets the calls under way finish.
// Once ctx is done it cuts off what is left, and says so.
func (s *Server) Drain(ctx context.Context) error {
	s.health.Shutdown()
	wait(ctx, s.drainWait)
	s.endStreams()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.grpc.GracefulStop()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		// The goroutine ends with the last handler, whose context ends here.
		s.grpc.Stop()
		return fmt.Errorf("draining gRPC: calls were cut off: %w", ctx.Err())
	}
}

// Stop ends the front at once. Calls under way fail.
func (s *Server) Stop() {
	s.health.Shutdown()
	s.endStreams()
	s.grpc.Stop()
}

func wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
