// Package envoy is the gRPC server, called the front, that the two doors for Envoy are
// registered on: one server on one port, with TLS, health, reflection, limits and a
// graceful drain.
//
// server.go configures and runs it; codec.go lets doors work on messages in wire form;
// guard.go turns panics and empty replies into errors; certificates.go reloads the
// certificates. The package knows neither doors nor rules.
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

// Options configure the front. A zero field means the default that its comment states.
type Options struct {
	// MaxConnectionAge is the age at which a connection is asked to end. Each Envoy
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
	// MaxMessageBytes is the maximum size of a request. The default is 4 MiB: Envoy
	// can be configured to send the body, and a rejected check may fail open.
	MaxMessageBytes int
	// MaxStreams is the maximum number of concurrent calls per connection; callers
	// delay further calls. The default is 1024.
	MaxStreams uint32
	// StreamWorkers is the number of goroutines that are reused for calls, which
	// saves each call the growth of a new stack. Further calls run in goroutines of
	// their own; with 0, all do.
	StreamWorkers uint32
	// DrainWait is the time for which a drain keeps answering after it reports
	// NOT_SERVING, so that health checks notice before connections end. The default
	// is not to wait.
	DrainWait time.Duration
	// Certificates enable TLS. The default is plain text.
	Certificates *Certificates
	// Logger receives panics; the default is slog.Default.
	Logger *slog.Logger
}

// The limits that are not configurable.
const (
	// maxHeaderBytes is the maximum size of the gRPC metadata of a call. Envoy sends
	// less than 1 kB; gRPC's default is 16 MiB.
	maxHeaderBytes = 64 << 10
	// deadPeerAfter is the idle time after which a connection is pinged, and
	// pingTimeout the time to answer. The connection of a caller that disappeared is
	// freed after their sum.
	deadPeerAfter = time.Minute
	pingTimeout   = 20 * time.Second
	// handshakeTimeout is the maximum duration of a handshake. A drain waits for
	// handshakes in progress, so it must be well below the time of a drain.
	handshakeTimeout = 3 * time.Second
)

// Server is the front. Register the services, then call Serve.
type Server struct {
	grpc      *grpc.Server
	health    *health.Server
	drainWait time.Duration
	// endStreams ends all streams, including those that begin later.
	endStreams context.CancelFunc
}

var (
	_ grpc.ServiceRegistrar = (*Server)(nil)
	_ wire.Front            = (*Server)(nil)
)

// NewServer returns a front that serves health and reflection.
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

// credentials returns TLS or plain text, as configured.
func (o *Options) credentials() credentials.TransportCredentials {
	if o.Certificates == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(o.Certificates.config())
}

// RegisterService registers a service and reports it as SERVING in the health service.
// It must be called before Serve.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, service any) {
	s.grpc.RegisterService(desc, service)
	s.health.SetServingStatus(desc.ServiceName, healthv1.HealthCheckResponse_SERVING)
}

// RegisterWire registers a service that works on messages in wire form, like
// RegisterService. Only this server's codec supports such services.
func (s *Server) RegisterWire(service *wire.Service) {
	s.RegisterService(service.Description(), service)
}

// Serve answers calls on l until Drain or Stop, and closes l. It may be called
// concurrently for several listeners.
func (s *Server) Serve(l net.Listener) error {
	if err := s.grpc.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serving gRPC on %s: %w", l.Addr(), err)
	}
	return nil
}

// Drain stops the front without failing calls: it reports NOT_SERVING, waits for
// DrainWait, asks all connections to end and waits for calls in progress. If ctx ends
// first, Drain aborts the remaining calls and returns an error.
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
		return fmt.Errorf("draining gRPC: aborted the remaining calls: %w", ctx.Err())
	}
}

// Stop stops the front at once. Calls in progress fail.
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
