// Package ratelimit is the door of Envoy's rate limit filters:
// envoy.service.ratelimit.v3.RateLimitService.
package ratelimit

import (
	"bytes"
	"context"
	"log/slog"
	"sync"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/mapping"
)

// Options are what the door works with.
type Options struct {
	Engine  *engine.Engine
	Mapping mapping.Options
	// SendHeaders adds the fields of Presentation to the client's response.
	// It is off by default since Envoy makes x-ratelimit-* and Retry-After
	// itself, and the client would get both.
	SendHeaders  bool
	Presentation engine.Presentation
	// Logger hears of calls that cannot be decided, at debug level, since
	// clients can cause them at will. The default is slog.Default.
	Logger *slog.Logger
}

// Server is the door. It is safe for concurrent use.
type Server struct {
	options   Options
	info      *grpc.UnaryServerInfo // of every call
	questions sync.Pool
}

// New returns the door to an engine.
func New(o Options) *Server {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	s := &Server{options: o}
	s.info = &grpc.UnaryServerInfo{Server: s, FullMethod: rlsv3.RateLimitService_ShouldRateLimit_FullMethodName}
	s.questions.New = func() any { return new(question) }
	return s
}

// Register puts the door on a front. The front must have a request read itself,
// by encoding.BinaryUnmarshaler, and send a reply that is []byte as it is, which
// envoy.Server does and grpc.Server by itself does not.
func (s *Server) Register(front grpc.ServiceRegistrar) { front.RegisterService(&description, s) }

// description is the generated one, but for the handler, which is called with
// generated messages.
var description = grpc.ServiceDesc{
	ServiceName: rlsv3.RateLimitService_ServiceDesc.ServiceName,
	HandlerType: (*any)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "ShouldRateLimit", Handler: shouldRateLimit}},
	Metadata:    rlsv3.RateLimitService_ServiceDesc.Metadata,
}

// shouldRateLimit is how grpc calls the door.
func shouldRateLimit(door any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // grpc gives the order
	s := door.(*Server)
	q := s.questions.Get().(*question)
	defer s.release(q)
	if err := decode(q); err != nil {
		return nil, err
	}
	if intercept == nil {
		return s.handle(ctx, q)
	}
	return intercept(ctx, q, s.info, s.handle)
}

// handle decides all descriptors of a question in one atomic step: if one of them
// is refused, none is counted. It replies with a RateLimitResponse in wire form.
func (s *Server) handle(ctx context.Context, asked any) (any, error) {
	set := s.options.Engine.Rules()
	q := asked.(*question)
	fault := q.read(set, &s.options.Mapping)
	d, err := s.options.Engine.Decide(ctx, q.ask(set, fault))
	if err != nil {
		return nil, s.undecided(err)
	}
	if d.Unavailable {
		return nil, status.Error(codes.Unavailable, "no store can answer, and the rules leave the decision to the gateway")
	}
	q.reply = s.appendAnswer(q.reply[:0], q, d)
	return bytes.Clone(q.reply), nil
}

// undecided is what the caller is told of a request that has no decision.
func (s *Server) undecided(err error) error {
	if engine.IsInvalid(err) {
		err = status.Error(codes.InvalidArgument, err.Error())
	}
	if _, ok := status.FromError(err); !ok {
		err = status.FromContextError(err).Err()
	}
	if status.Code(err) == codes.InvalidArgument {
		s.options.Logger.Debug("refused a call", "door", doorname.RateLimit, "reason", status.Convert(err).Message())
	}
	return err
}

// release keeps q for another call, without what it holds of this one.
func (s *Server) release(q *question) {
	q.forget()
	s.questions.Put(q)
}
