// Package extauthz is the door of Envoy's external authorization filter on gRPC,
// the service envoy.service.auth.v3.Authorization.
//
// A check takes these steps: server.go receives it from gRPC; request.go reads the
// CheckRequest in wire form and maps it, with lookups in Envoy's dynamic metadata
// (metadata.go); a door.Gate decides it; response.go appends the CheckResponse in wire
// form. The generated messages are not used for calls:
// they would be several dozen per call, and they reject text that is not UTF-8,
// which Envoy accepts from clients.
//
// The package serves package internal/service: its API may change in any release. Go
// programs use the packages koalagate, engine, rules and middleware.
package extauthz

import (
	"context"
	"log/slog"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/door"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/envoyapi"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/wire"
)

// Options configure the door. Only Engine is required.
type Options struct {
	Engine       *engine.Engine
	Mapping      mapping.Options
	Presentation engine.Presentation
	// Watch observes the calls; nil for none.
	Watch *door.Watch
	// Logger receives checks that cannot be decided, at debug level because
	// clients can cause them at will. The default is slog.Default.
	Logger *slog.Logger
}

// Server is the door. It is safe for concurrent use.
type Server struct {
	gate         door.Gate
	presentation engine.Presentation
	logger       *slog.Logger
	checks       door.Pool[check]
}

// New returns the door to an engine.
func New(o Options) *Server {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Server{
		gate:         door.Gate{Engine: o.Engine, Mapping: o.Mapping, Watch: o.Watch, Logger: o.Logger},
		presentation: o.Presentation,
		logger:       o.Logger,
	}
}

// Register registers the door on a front, which is an envoy.Server.
func (s *Server) Register(front wire.Front) {
	front.RegisterWire(wire.NewService(&authv3.Authorization_ServiceDesc, s.begin))
}

func (s *Server) begin() *check {
	c := s.checks.Get()
	c.server = s
	s.gate.Arrive(&c.question)
	return c
}

// Answer decides the check and returns a CheckResponse in wire form. A decision is
// always part of the message. An error means that there is no decision, and leaves
// the request to Envoy's failure mode.
func (c *check) Answer(ctx context.Context) ([]byte, error) {
	s := c.server
	c.fill()
	c.metadata.Context = ctx
	c.question.Metadata = &c.metadata
	d, err := s.gate.Decide(ctx, &c.question, s.gate.Hit(&c.question))
	if err != nil {
		fault := door.FaultOf(err)
		if !fault.IsRequest() {
			return nil, envoyapi.Error(fault)
		}
		s.logger.Debug("check refused", "door", doorname.ExtAuthz, "reason", fault.Detail)
		fault.RequestID = c.question.RequestID()
		c.reply = appendFault(c.reply[:0], fault)
		return c.reply, nil
	}
	c.reply = s.appendAnswer(c.reply[:0], c, d)
	return c.reply, nil
}

// End returns the check to the pool.
func (c *check) End() {
	s := c.server
	c.reset()
	s.checks.Put(c)
}
