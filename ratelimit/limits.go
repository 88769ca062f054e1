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
	"github.com/koalagate/koalagate/internal/wire"
	"github.com/koalagate/koalagate/rules"
)

// Limits is the door of limits that were imported from envoyproxy/ratelimit. It answers
// as that does. It is safe for concurrent use.
type Limits struct {
	options imported.Options
	server  *Server
	rules   limitRules
	calls   door.Pool[limitCall]
}

// NewLimits returns a door of imported limits at the engine of a door of rules, whose
// bounds, observers and settings it has. With Options.Rules these rules must allow a call,
// too. The error names what is missing.
func NewLimits(o imported.Options, own *Server) (*Limits, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if own == nil {
		return nil, errors.New("imported limits: no door of rules; want the one from New")
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Limits{options: o, server: own, rules: limitRules{options: &o}}, nil
}

// Register registers the door on a front, which is an envoy.Server.
func (s *Limits) Register(front wire.Front) {
	front.RegisterWire(wire.NewService(&rlsv3.RateLimitService_ServiceDesc, s.begin))
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
	c.limits, c.server, c.begun, c.isTimed = s, s.server, time.Now(), true
	s.server.gate.Arrive(&c.question)
	return c
}

// limitCall is one call with the memory that it needs, which is reused. It is the source of
// the limits of its own decision.
type limitCall struct {
	call
	limits  *Limits
	begun   time.Time
	isTimed bool
	set     *envoylimits.Set // by which the call is decided
	match   envoylimits.Match
	applied []applied // one per descriptor
	asked   []int     // the descriptors behind the inputs that meet limits
	subject []byte

	found     bool // the limits of the descriptors
	unruled   bool // the request has no parameters for the rules
	operating bool // the inputs are operations
	browsing  bool // the decision counts nothing
	concluded bool // by the limits
	over      bool // the limits refuse
}

// Answer decides all descriptors of the call in one atomic step, by the limits and by the
// rules, and returns a RateLimitResponse in wire form.
func (c *limitCall) Answer(ctx context.Context) ([]byte, error) {
	fault := c.check()
	c.begin()
	c.metadata.Context = ctx
	c.question.Metadata = &c.metadata
	c.prepare()
	if fault == nil && c.operations > 0 {
		if err := c.operate(ctx); err != nil {
			return nil, err
		}
		if c.sets() == 0 {
			c.reply = c.appendResponse(c.reply[:0], false)
			return c.reply, nil
		}
	}
	if fault == nil && c.limits.options.StopWhenOver && !c.limits.options.FreeRefusals {
		c.stopWhenOver(ctx)
	}
	if fault == nil {
		fault = c.askAll()
	}
	return c.answer(ctx, fault)
}

// askAll makes the inputs of the decision: of each descriptor one for the limits, and behind
// these one for the rules, if they decide, too.
func (c *limitCall) askAll() error {
	if !c.limits.options.Rules {
		c.ask(0)
		return nil
	}
	n := c.sets()
	c.ask(n)
	for k, i := range c.asked {
		if err := c.fillSet(n+k, i); err != nil {
			c.unruled = true
			return err
		}
	}
	return nil
}

// answer decides the inputs and returns the response.
func (c *limitCall) answer(ctx context.Context, fault error) ([]byte, error) {
	s := c.limits
	d, err := c.decide(ctx, engine.Call{Op: engine.Take, Fault: fault})
	if err != nil {
		return nil, err
	}
	if !c.concluded { // the mode of the door lets the call through
		c.applied = make([]applied, len(c.message.descriptors))
		if len(d.Answers) == 0 || d.Answers[0].Mode == engine.ModeObserve {
			c.reportFailure(fault)
		}
	}
	byLimits := d.Refuser >= 0 && d.Refuser < len(c.asked)
	if c.concluded && c.over && !byLimits {
		s.options.Statistics.Overruled()
	}
	if d.Refuser >= len(c.asked) {
		byRules := *d
		byRules.Answers, byRules.Refuser = d.Answers[len(c.asked):], d.Refuser-len(c.asked)
		c.reply = s.server.appendAnswer(c.reply[:0], &c.call, &byRules)
		return c.reply, nil
	}
	if s.options.Settle {
		c.receipt = d.Receipt
	}
	c.reply = c.appendResponse(c.reply[:0], d.Verdict != rules.Allow)
	if s.options.Rules && d.Verdict == rules.Allow {
		c.reply = c.appendAllowed(c.reply, d)
	}
	return c.reply, nil
}

// decide has the engine decide the inputs. The error is a gRPC status.
func (c *limitCall) decide(ctx context.Context, call engine.Call) (*engine.Decision, error) {
	c.concluded, c.over, c.browsing = false, false, false
	call.Source, call.RefuseExcess = c, true
	d, err := c.server.gate.Decide(ctx, &c.question, call)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, status.FromContextError(ctx.Err()).Err()
	case err != nil && c.unruled:
		return nil, c.server.explain(err)
	case err != nil:
		c.reportFailure(err)
		return nil, c.refuseRequest(err)
	case d.Unavailable:
		c.reportFailure(nil)
		if err = d.Cause; err == nil {
			err = errors.New("Redis is unavailable, and the policy of the door leaves the decision to the gateway")
		}
		return nil, c.refuseRequest(err)
	}
	return d, nil
}

// reportFailure reports a call that was not decided because of a fault of its request, or
// with nil because no store answered.
func (c *limitCall) reportFailure(fault error) {
	if fault != nil {
		c.limits.options.Statistics.RequestFailed()
	} else {
		c.limits.options.Statistics.StoreFailed()
	}
}

// ask makes inputs of the descriptors whose turn it is, operations or the others, and more
// inputs behind them. It returns the number of these descriptors.
func (c *limitCall) ask(more int) int {
	c.asked = c.asked[:0]
	for i := range c.applied {
		a := &c.applied[i]
		if operates := a.operation == charge || a.operation == refund; operates && c.operating || a.operation == decide && !c.operating {
			c.asked = append(c.asked, i)
		}
	}
	c.question.Resize(len(c.asked) + more)
	inputs := c.question.Inputs()
	for k, i := range c.asked {
		a, in := &c.applied[i], &inputs[k]
		in.Sourced, in.Hits, in.NoHits, in.Refund, in.Charge = true, uint64(a.counted), a.counted == 0, a.negative, c.operating
		in.Params.Set("domain", c.message.domain)
		for _, e := range c.message.entriesOf(i) {
			in.Params.Set(e.Key, e.Value)
		}
	}
	return len(c.asked)
}

// operate carries out the operations on the limits in one step, and then those on the rules.
func (c *limitCall) operate(ctx context.Context) error {
	alone := c.sets() == 0
	limited := ctx
	if alone {
		var cancel context.CancelFunc
		limited, cancel = outliving(ctx)
		defer cancel()
	}
	c.operating = true
	defer func() { c.operating = false }()
	if c.ask(0) > 0 {
		if _, err := c.decide(limited, engine.Call{Op: engine.Take, Charges: true, Unobserved: !alone || c.limits.options.Rules}); err != nil {
			return err
		}
	}
	if !c.limits.options.Rules {
		return nil
	}
	if err := c.call.operate(ctx); alone {
		return err
	}
	return nil
}

// stopWhenOver reads the counters, and if a limit is exceeded takes the weights of the
// descriptors away that exceed none.
func (c *limitCall) stopWhenOver(ctx context.Context) {
	c.ask(0)
	inputs := c.question.Inputs()
	for k := range inputs {
		inputs[k].Refund = false // which only a take may have
		if c.applied[c.asked[k]].negative {
			inputs[k].Hits, inputs[k].NoHits = 0, true
		}
	}
	c.browsing = true
	d, err := c.server.gate.Decide(ctx, &c.question, engine.Call{Op: engine.Browse, Source: c, Unobserved: true})
	if err != nil || d.Unavailable {
		return // the take reports it
	}
	exceeds := func(k int) bool { return d.Answers[k].Decider != nil && !c.applied[c.asked[k]].negative }
	var within []int
	for k := range c.asked {
		if !exceeds(k) {
			within = append(within, k)
		}
	}
	if len(within) == len(c.asked) {
		return
	}
	for _, k := range within {
		if a := &c.applied[c.asked[k]]; !a.negative {
			a.counted = 0
		}
	}
}

// check returns an error for a request that envoyproxy/ratelimit does not answer either,
// and finds the operations.
func (c *limitCall) check() (err error) {
	switch c.set = c.limits.options.Current(); {
	case c.message.domain == "":
		return errors.New("rate limit domain must not be empty")
	case c.message.count == 0:
		return errors.New("rate limit descriptor list must not be empty")
	case c.message.count > c.server.maxDescriptors:
		c.server.tooManyDescriptors()
		return door.Invalid("%d descriptors; want at most %d", c.message.count, c.server.maxDescriptors)
	case c.limits.options.Settle:
		if c.operations, err = c.message.readOperations(); err != nil {
			return err
		}
	}
	if c.set == nil {
		return errors.New("no rate limit configuration loaded")
	}
	return c.checkOverrides()
}

// checkOverrides returns an error for a limit that a descriptor carries without a unit.
func (c *limitCall) checkOverrides() error {
	for i := range c.message.descriptors {
		d := &c.message.descriptors[i]
		if d.hasLimit && d.takesLimit() && unitOf(d).Seconds() == 0 && c.set.Knows(c.message.domain) {
			return errors.New("the limit of a descriptor has no unit; want SECOND to YEAR")
		}
	}
	return nil
}

// refuseRequest logs an error and returns it as a gRPC status with the code that
// envoyproxy/ratelimit uses.
func (c *limitCall) refuseRequest(err error) error {
	c.limits.options.Logger.Debug("call refused", "door", doorname.RateLimit, "reason", err)
	return status.Error(codes.Unknown, err.Error())
}

// End returns the call to the pool.
func (c *limitCall) End() {
	s := c.limits
	if c.isTimed {
		s.options.Statistics.Called(time.Since(c.begun))
	}
	c.reset()
	clear(c.applied)
	c.limits, c.set, c.match.Limit, c.found, c.unruled = nil, nil, nil, false, false
	s.calls.Put(c)
}
