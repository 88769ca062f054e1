// Package extauthz is the door of Envoy's external authorization filter on
// gRPC: envoy.service.auth.v3.Authorization.
package extauthz

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/status"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/mapping"
	"github.com/koalagate/koalagate/rules"
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
	engine       *engine.Engine
	mapping      mapping.Options
	presentation engine.Presentation
	logger       *slog.Logger
	questions    sync.Pool
}

var _ authv3.AuthorizationServer = (*Server)(nil)

// New returns the door to an engine.
func New(o Options) *Server {
	s := &Server{engine: o.Engine, mapping: o.Mapping, presentation: o.Presentation, logger: o.Logger}
	if s.logger == nil {
		s.logger = slog.Default()
	}
	s.questions.New = func() any { return new(question) }
	return s
}

// Check answers whether a request may pass. An error means that the question
// has no answer, and leaves what then holds to Envoy's failure mode; a
// decision always travels in the message.
func (s *Server) Check(ctx context.Context, check *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	set := s.engine.Rules()
	q := s.questions.Get().(*question)
	defer s.release(q)
	q.read(check)
	fault := mapping.Params(set, &q.request, &s.mapping, &q.params)
	d, err := s.engine.Decide(ctx, q.ask(set, fault))
	if err != nil {
		return s.undecided(err)
	}
	return s.answer(check, d), nil
}

// undecided answers a check that has no decision: what is wrong with the
// request is the client's to hear, anything else Envoy's.
func (s *Server) undecided(err error) (*authv3.CheckResponse, error) {
	var refusal *mapping.Refusal
	switch {
	case errors.As(err, &refusal):
		s.logger.Debug("refused a check", "door", mapping.ExtAuthz, "reason", refusal.Reason)
		return problem(refusal.Status, refusal.Reason), nil
	case engine.IsInvalid(err):
		s.logger.Debug("refused a check", "door", mapping.ExtAuthz, "reason", err)
		return problem(http.StatusBadRequest, err.Error()), nil
	}
	return nil, status.FromContextError(err).Err()
}

// question is what one check needs on its way to the engine, kept for the
// next.
type question struct {
	request mapping.Request
	params  rules.Params
	sets    [1]engine.Input
	call    engine.Call
	room    engine.Room
}

// ask is the call that puts the question; fault is what the mapping found wrong
// with it.
func (q *question) ask(set *rules.Set, fault error) *engine.Call {
	q.sets[0] = engine.Input{Params: &q.params, Hits: 1}
	q.call = engine.Call{Rules: set, Door: string(mapping.ExtAuthz), Op: engine.Take, Sets: q.sets[:], Fault: fault, Room: &q.room}
	return &q.call
}

// release keeps q for another check, without what it holds of this one.
func (s *Server) release(q *question) {
	q.params.Reset()
	q.request, q.call = mapping.Request{}, engine.Call{}
	s.questions.Put(q)
}
