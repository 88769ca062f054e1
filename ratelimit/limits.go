package ratelimit

import (
	"context"
	"errors"
	"log/slog"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/door"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/dropin/imported"
	"github.com/koalagate/koalagate/internal/envoylimits"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/wire"
)

// Limits is the door of limits that were imported from envoyproxy/ratelimit. It answers
// as that does. It is safe for concurrent use.
type Limits struct {
	options imported.Options
	rules   *Server
	calls   door.Pool[limitCall]
}

// NewLimits returns a door of imported limits. The rules of a door decide the calls that
// the limits allow, and both must allow; nil for none. The error names a required option that
// is missing.
func NewLimits(o imported.Options, rules *Server) (*Limits, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.MaxDescriptors < 1 || o.MaxDescriptors > maxDescriptors {
		o.MaxDescriptors = maxDescriptors
	}
	if o.TooManyDescriptors == nil {
		o.TooManyDescriptors = func() {}
	}
	if o.RescueShare <= 0 || o.RescueShare > 1 {
		o.RescueShare = 1
	}
	return &Limits{options: o, rules: rules}, nil
}

// Register registers the door on a front, which is an envoy.Server.
func (s *Limits) Register(front wire.Front) {
	front.RegisterWire(wire.NewService(&rlsv3.RateLimitService_ServiceDesc, func() wire.Call { return s.begin() }))
}

// Decide answers a RateLimitRequest in wire form with a RateLimitResponse in wire form.
// The error is a gRPC status. The statistics do not count it as a call, which calls by
// gRPC alone are.
func (s *Limits) Decide(ctx context.Context, request []byte) ([]byte, error) {
	c := s.begin()
	defer c.End()
	c.isTimed = false
	if err := c.UnmarshalBinary(request); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	reply, err := c.Answer(ctx)
	return append([]byte(nil), reply...), err
}

func (s *Limits) begin() *limitCall {
	c := s.calls.Get()
	c.limits, c.begun, c.isTimed = s, time.Now(), true
	return c
}

// limitCall is one call with the memory that it needs, which is reused.
type limitCall struct {
	limits  *Limits
	begun   time.Time
	isTimed bool
	message message
	match   envoylimits.Match
	applied []applied // one per descriptor
	// operations is the number of descriptors that are operations. While operating is
	// true, these are counted, otherwise the others.
	operations int
	operating  bool
	receipt    string // of the rules; "" for none
	plan       store.Plan
	answers    store.Answers
	subject    []byte
	reply      []byte
}

// UnmarshalBinary reads a RateLimitRequest in wire form.
func (c *limitCall) UnmarshalBinary(request []byte) error { return c.message.read(request) }

// Answer counts all descriptors of the call in one atomic step, and returns a
// RateLimitResponse in wire form.
func (c *limitCall) Answer(ctx context.Context) ([]byte, error) {
	s := c.limits
	mode := s.mode()
	c.answers.Degraded, c.answers.Now = false, 0
	over, decided := false, true
	if mode == engine.ModeOff {
		c.applied = make([]applied, len(c.message.descriptors))
	} else if err := c.limit(ctx); err == nil {
		over = c.isOver()
	} else if mode == engine.ModeObserve && ctx.Err() == nil {
		c.applied, decided = make([]applied, len(c.message.descriptors)), false
	} else {
		return nil, err
	}
	overruled := mode
	if mode == engine.ModeEnforce {
		overruled = ""
		if s.options.Shadow {
			overruled = engine.ModeObserve
		}
	}
	if decided && (over || s.rules == nil) {
		c.report(over, overruled)
	}
	if over && overruled != "" {
		over = false
		s.options.Statistics.Overruled()
	}
	if s.rules != nil {
		if reply, err := c.askRules(ctx, over); reply != nil || err != nil {
			return reply, err
		}
	}
	c.reply = c.appendResponse(c.reply[:0], over)
	return c.reply, nil
}

// limit counts the descriptors by the limits.
func (c *limitCall) limit(ctx context.Context) error {
	if err := c.check(); err != nil {
		return c.failRequest(err)
	}
	set := c.limits.options.Current()
	if set == nil {
		return c.failRequest(errors.New("no rate limit configuration loaded"))
	}
	if err := c.apply(set); err != nil {
		return c.failRequest(err)
	}
	if err := c.countAll(ctx); err != nil {
		if ctx.Err() != nil {
			return status.FromContextError(ctx.Err()).Err()
		}
		c.limits.options.Statistics.StoreFailed()
		return c.refuse(err)
	}
	return nil
}

// check returns an error for a request that envoyproxy/ratelimit does not answer either,
// and finds the operations.
func (c *limitCall) check() (err error) {
	switch {
	case c.message.domain == "":
		return errors.New("rate limit domain must not be empty")
	case c.message.count == 0:
		return errors.New("rate limit descriptor list must not be empty")
	case c.message.count > c.limits.options.MaxDescriptors:
		c.limits.options.TooManyDescriptors()
		return door.Invalid("%d descriptors; want at most %d", c.message.count, c.limits.options.MaxDescriptors)
	}
	if c.limits.options.Settle {
		c.operations, err = c.message.readOperations()
	}
	return err
}

// failRequest reports a call that cannot be counted, and returns the status of refuse.
func (c *limitCall) failRequest(err error) error {
	c.limits.options.Statistics.RequestFailed()
	return c.refuse(err)
}

// refuse logs an error and returns it as a gRPC status with the code that
// envoyproxy/ratelimit uses.
func (c *limitCall) refuse(err error) error {
	c.limits.options.Logger.Debug("call refused", "door", doorname.RateLimit, "reason", err)
	return status.Error(codes.Unknown, err.Error())
}

// askRules returns the answer of the rules if they refuse, nil if they allow. If the
// limits are exceeded, the rules carry out the operations only.
func (c *limitCall) askRules(ctx context.Context, over bool) ([]byte, error) {
	if over && c.operations == 0 {
		return nil, nil
	}
	own := c.limits.rules.begin()
	defer own.End()
	if err := own.UnmarshalBinary([]byte(c.message.text)); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if over {
		return nil, own.operateOnly(ctx)
	}
	reply, err := own.Answer(ctx)
	if err != nil || own.allowed || c.operations == len(c.message.descriptors) {
		if c.limits.options.Settle {
			c.receipt = own.receipt
		}
		return nil, err
	}
	c.reply = append(c.reply[:0], reply...)
	return c.reply, nil
}

// End returns the call to the pool.
func (c *limitCall) End() {
	const keptEntries, keptReply = 64, 64 << 10
	s := c.limits
	if c.isTimed {
		s.options.Statistics.Called(time.Since(c.begun))
	}
	if cap(c.message.entries) > keptEntries || cap(c.reply) > keptReply {
		*c = limitCall{}
	} else {
		c.message.reset()
		clear(c.applied)
		c.limits, c.match.Limit = nil, nil
		c.operations, c.receipt = 0, ""
	}
	s.calls.Put(c)
}
