// Package ratelimit is the door of Envoy's rate limit filters:
// envoy.service.ratelimit.v3.RateLimitService.
package ratelimit

import (
	"context"
	"log/slog"
	"sync"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/mapping"
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
	questions sync.Pool
}

var _ rlsv3.RateLimitServiceServer = (*Server)(nil)

// New returns the door to an engine.
func New(o Options) *Server {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	s := &Server{options: o}
	s.questions.New = func() any { return new(question) }
	return s
}

// ShouldRateLimit decides all descriptors of a request in one atomic step: if
// one of them is refused, none is counted.
func (s *Server) ShouldRateLimit(ctx context.Context, request *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	set := s.options.Engine.Rules()
	q := s.questions.Get().(*question)
	defer s.release(q)
	fault := q.read(set, request, &s.options.Mapping)
	d, err := s.options.Engine.Decide(ctx, q.ask(set, fault))
	if err != nil {
		return s.undecided(err)
	}
	if d.Unavailable {
		return nil, status.Error(codes.Unavailable, "no store can answer, and the rules leave the decision to the gateway")
	}
	return s.answer(q, d), nil
}

// undecided answers a request that has no decision.
func (s *Server) undecided(err error) (*rlsv3.RateLimitResponse, error) {
	if engine.IsInvalid(err) {
		err = status.Error(codes.InvalidArgument, err.Error())
	}
	if _, ok := status.FromError(err); !ok {
		err = status.FromContextError(err).Err()
	}
	if status.Code(err) == codes.InvalidArgument {
		s.options.Logger.Debug("refused a call", "door", mapping.RateLimit, "reason", status.Convert(err).Message())
	}
	return nil, err
}

// release keeps q for another call, without what it holds of this one.
func (s *Server) release(q *question) {
	q.forget()
	s.questions.Put(q)
}
