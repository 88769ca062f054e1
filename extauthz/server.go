// Package extauthz is the door of Envoy's external authorization filter on
// gRPC: envoy.service.auth.v3.Authorization.
package extauthz

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/mapping"
)

// Options are what the door works with.
type Options struct {
	Engine       *engine.Engine
	Mapping      mapping.Options
	Presentation engine.Presentation
	// Logger hears of checks that cannot be decided, at debug level, since
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
	s.info = &grpc.UnaryServerInfo{Server: s, FullMethod: authv3.Authorization_Check_FullMethodName}
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
	ServiceName: authv3.Authorization_ServiceDesc.ServiceName,
	HandlerType: (*any)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "Check", Handler: check}},
	Metadata:    authv3.Authorization_ServiceDesc.Metadata,
}

// check is how grpc calls the door.
func check(door any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // grpc gives the order
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

// handle answers whether a request may pass, by a CheckResponse in wire form. An
// error means that the question has no answer, and leaves what then holds to
// Envoy's failure mode; a decision always travels in the message.
func (s *Server) handle(ctx context.Context, asked any) (any, error) {
	set := s.options.Engine.Rules()
	q := asked.(*question)
	q.read()
	fault := mapping.Params(set, &q.request, &s.options.Mapping, &q.params)
	d, err := s.options.Engine.Decide(ctx, q.ask(set, fault))
	if err != nil {
		return s.undecided(err)
	}
	q.reply = s.appendAnswer(q.reply[:0], &q.asked, d)
	return bytes.Clone(q.reply), nil
}

// undecided answers a check that has no decision: what is wrong with the
// request is the client's to hear, anything else Envoy's.
func (s *Server) undecided(err error) (any, error) {
	var refusal *mapping.Refusal
	switch {
	case errors.As(err, &refusal):
		s.options.Logger.Debug("refused a check", "door", doorname.ExtAuthz, "reason", refusal.Reason)
		return appendProblem(nil, refusal.Status, refusal.Reason), nil
	case engine.IsInvalid(err):
		s.options.Logger.Debug("refused a check", "door", doorname.ExtAuthz, "reason", err)
		return appendProblem(nil, http.StatusBadRequest, err.Error()), nil
	}
	return nil, status.FromContextError(err).Err()
}

// release keeps q for another check, without what it holds of this one.
func (s *Server) release(q *question) {
	q.forget()
	s.questions.Put(q)
}
