// Package ratelimit is the door of Envoy's rate limit filters, the service
// envoy.service.ratelimit.v3.RateLimitService.
//
// A call takes these steps: server.go receives it from gRPC; read.go reads the
// RateLimitRequest in wire form; request.go makes a parameter set of each descriptor,
// with the weight and the limit that it carries; a door.Gate decides all of them in
// one atomic step; response.go appends the RateLimitResponse in wire form. Before that,
// operation.go carries out the descriptors that charge or give back. The
// generated messages are not used for calls: they would be a dozen for four
// descriptors, and they reject text that is not UTF-8, which Envoy accepts from
// clients.
//
// The package serves package internal/service: its API may change in any release. Go
// programs use the packages koalagate, engine, rules and middleware.
package ratelimit

import (
	"context"
	"log/slog"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/door"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/envoyapi"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/wire"
)

// Options configure the door. Only Engine is required.
type Options struct {
	Engine  *engine.Engine
	Mapping mapping.Options
	// SendHeaders adds the fields of Presentation to the client's response. It is
	// off by default because Envoy adds x-ratelimit-* and Retry-After itself, and
	// the client would receive both.
	SendHeaders  bool
	Presentation engine.Presentation
	// MaxDescriptors is the maximum number of descriptors of a call, 1 … 1024. The
	// default is 1024. A call above it is an INVALID_ARGUMENT.
	MaxDescriptors int
	// PlainEntries makes entries whose keys begin with koala. parameters like all others.
	PlainEntries bool
	// TooManyDescriptors is called for each call above MaxDescriptors. It must return
	// at once. It may be nil.
	TooManyDescriptors func()
	// Watch observes the calls; nil for none.
	Watch *door.Watch
	// Logger receives calls that cannot be decided, at debug level because clients
	// can cause them at will, and parameters that applications do not receive. The default is
	// slog.Default.
	Logger *slog.Logger
}

// Server is the door. It is safe for concurrent use.
type Server struct {
	gate         door.Gate
	sendHeaders  bool
	presentation engine.Presentation
	logger       *slog.Logger
	calls        door.Pool[call]

	maxDescriptors     int
	tooManyDescriptors func()
	plainEntries       bool
}

// New returns the door to an engine.
func New(o Options) *Server {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.MaxDescriptors < 1 || o.MaxDescriptors > maxDescriptors {
		o.MaxDescriptors = maxDescriptors
	}
	if o.TooManyDescriptors == nil {
		o.TooManyDescriptors = func() {}
	}
	return &Server{
		gate:         door.Gate{Engine: o.Engine, Mapping: o.Mapping, Watch: o.Watch, Logger: o.Logger},
		sendHeaders:  o.SendHeaders,
		presentation: o.Presentation,
		logger:       o.Logger,

		maxDescriptors:     o.MaxDescriptors,
		tooManyDescriptors: o.TooManyDescriptors,
		plainEntries:       o.PlainEntries,
	}
}

// Register registers the door on a front, which is an envoy.Server.
func (s *Server) Register(front wire.Front) {
	front.RegisterWire(wire.NewService(&rlsv3.RateLimitService_ServiceDesc, s.begin))
}

func (s *Server) begin() *call {
	c := s.calls.Get()
	c.server = s
	s.gate.Arrive(&c.question)
	return c
}

// Answer decides all descriptors of the call in one atomic step, so that none is
// counted if one is refused, and returns a RateLimitResponse in wire form.
func (c *call) Answer(ctx context.Context) ([]byte, error) {
	s := c.server
	fault := c.check()
	c.begin()
	c.metadata.Context = ctx
	c.question.Metadata = &c.metadata
	if c.operations > 0 {
		err := c.operate(ctx)
		if c.sets() == 0 {
			return c.operated(err)
		}
		c.question.Resize(c.sets())
	}
	if fault == nil {
		fault = c.fill()
	}
	// Envoy lets a request pass if its call fails, so what exceeds a bound is refused.
	d, err := s.gate.Decide(ctx, &c.question, engine.Call{Op: engine.Take, Fault: fault, RefuseExcess: true})
	if err != nil {
		return nil, s.explain(err)
	}
	if d.Unavailable {
		return nil, unavailable(d)
	}
	c.receipt = d.Receipt
	c.reply = s.appendAnswer(c.reply[:0], c, d)
	return c.reply, nil
}

// unavailable returns the gRPC error of a call that no store can answer.
func unavailable(d *engine.Decision) error {
	return status.Error(codes.Unavailable, door.Unavailability(d, "no store can answer, and the rules leave the decision to the gateway"))
}

// explain returns the gRPC error of a call that has no decision.
func (s *Server) explain(err error) error {
	fault := door.FaultOf(err)
	if fault.IsRequest() {
		s.logger.Debug("call refused", "door", doorname.RateLimit, "reason", fault.Detail)
	}
	return envoyapi.Error(fault)
}

// End returns the call to the pool.
func (c *call) End() {
	s := c.server
	c.reset()
	s.calls.Put(c)
}
