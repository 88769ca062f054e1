// Package envoy is the gRPC server, called the front, that the three doors for Envoy are
// registered on: one server on one port, with TLS, health, reflection, limits and a
// graceful drain.
//
// server.go configures and runs it, by the settings in options.go; codec.go lets doors
// work on messages in wire form; guard.go surrounds the other handlers;
// meter.go bounds what a connection can cause: bounds.go has the bounds, credentials.go
// meters connections from their handshake, and frames.go finds the frames. The package
// knows neither doors nor rules.
//
// The package serves package internal/service: its API may change in any release. Go
// programs use the packages koalagate, engine, rules and middleware.
package envoy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/koalagate/koalagate/internal/delay"
	"github.com/koalagate/koalagate/internal/wire"
)

// Server is the front. Register the services, then call Serve.
type Server struct {
	grpc      *grpc.Server
	health    *health.Server
	services  []string // registered with RegisterService
	drainWait time.Duration
	exceeded  func(Bound, net.Addr)
	guard     *wire.Guard
	streaming map[string]bool // full names of methods whose calls may stay open
	// endStreams ends all streams, including streams that begin later.
	endStreams context.CancelFunc
}

var (
	_ grpc.ServiceRegistrar = (*Server)(nil)
	_ wire.Front            = (*Server)(nil)
	_ wire.StreamFront      = (*Server)(nil)
)

// connWindow is how many bytes of requests a connection may send before gRPC has read them.
// Were it not fixed, gRPC would measure the path to find a size: by a PING, a WINDOW_UPDATE
// and an answer to each request of a connection with one request at a time.
const connWindow = 1 << 20

// NewServer returns a front that serves health and reflection.
func NewServer(o Options) *Server {
	o = withDefaults(o)
	streams, endStreams := context.WithCancel(context.Background())
	s := &Server{health: health.NewServer(), drainWait: o.DrainWait, endStreams: endStreams, exceeded: o.Exceeded}
	g := &guard{
		Guard:   wire.Guard{Logger: o.Logger, Begun: o.Watch.Begun, Ended: o.Watch.Ended, Unread: s.countUnread},
		atDrain: func(f func()) func() bool { return context.AfterFunc(streams, f) },
	}
	s.guard = &g.Guard
	s.grpc = grpc.NewServer(
		grpc.Creds(meteredCredentials{o.credentials(), newMeter(&o), o.Watch.HandshakeFailed}),
		grpc.InTapHandle(s.limitCall(o.CallTimeout)),
		grpc.UnaryInterceptor(g.unary),
		grpc.StreamInterceptor(g.stream),
		grpc.MaxRecvMsgSize(max(o.MaxMessageBytes, o.MaxStreamMessageBytes)), // the codec knows which applies
		grpc.StaticConnWindowSize(connWindow),
		grpc.MaxConcurrentStreams(o.MaxStreams),
		grpc.MaxHeaderListSize(o.MaxHeaderBytes),
		grpc.ConnectionTimeout(o.HandshakeTimeout),
		grpc.NumStreamWorkers(o.StreamWorkers),
		grpc.ForceServerCodecV2(newCodec(o.MaxMessageBytes)),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime:             o.KeepaliveMinTime,
			PermitWithoutStream: true,
		}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle:     o.IdleTimeout,
			MaxConnectionAge:      o.MaxConnectionAge,
			MaxConnectionAgeGrace: o.MaxConnectionAgeGrace,
			Time:                  deadPeerAfter,
			Timeout:               pingTimeout,
		}),
	)
	healthv1.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	s.streaming = streamingMethods(s.grpc.GetServiceInfo())
	return s
}

// streamingMethods returns the full names of the methods whose calls may stay open:
// health watches and reflection.
func streamingMethods(services map[string]grpc.ServiceInfo) map[string]bool {
	names := make(map[string]bool)
	for service, info := range services {
		for _, method := range info.Methods {
			if method.IsClientStream || method.IsServerStream {
				names["/"+service+"/"+method.Name] = true
			}
		}
	}
	return names
}

// limitCall returns a function that gives each unary call a deadline whose request has
// not arrived. Without one, gRPC waits for the rest of a request as long as its
// connection lasts.
func (s *Server) limitCall(timeout time.Duration) tap.ServerInHandle {
	return func(ctx context.Context, info *tap.Info) (context.Context, error) {
		if isComplete(ctx) || s.streaming[info.FullMethodName] {
			return ctx, nil
		}
		return wire.WithArrivalTimeout(ctx, timeout), nil
	}
}

// countUnread reports a request that a bound kept from arriving.
func (s *Server) countUnread(err error) {
	switch status.Code(err) {
	case codes.DeadlineExceeded:
		s.exceeded(BoundCallTimeout, nil)
	case codes.ResourceExhausted:
		s.exceeded(BoundMessageSize, nil)
	}
}

// RegisterService registers a service and reports it as SERVING in the health service.
// It must be called before Serve.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, service any) {
	s.grpc.RegisterService(desc, service)
	s.services = append(s.services, desc.ServiceName)
	s.health.SetServingStatus(desc.ServiceName, healthv1.HealthCheckResponse_SERVING)
}

// SetServing makes the health service report all services as SERVING or NOT_SERVING,
// the server as a whole included. A drain reports NOT_SERVING in any case.
func (s *Server) SetServing(isServing bool) {
	status := healthv1.HealthCheckResponse_NOT_SERVING
	if isServing {
		status = healthv1.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus("", status)
	for _, name := range s.services {
		s.health.SetServingStatus(name, status)
	}
}

// Announce reports a further name as SERVING in the health service, until a drain. It
// must be called before Serve.
func (s *Server) Announce(service string) {
	s.services = append(s.services, service)
	s.health.SetServingStatus(service, healthv1.HealthCheckResponse_SERVING)
}

// RegisterWire registers a service that works on messages in wire form, like
// RegisterService. Only this server's codec supports such services.
func (s *Server) RegisterWire(service *wire.Service) {
	s.RegisterService(service.Describe(s.guard), service)
}

// RegisterStreams registers a service of streams of messages in wire form, like
// RegisterWire. Its messages may have Options.MaxStreamMessageBytes.
func (s *Server) RegisterStreams(service *wire.Streams) {
	s.streaming[service.Method()] = true
	s.RegisterService(service.Describe(), service)
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
	delay.Wait(ctx, s.drainWait)
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
