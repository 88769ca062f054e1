package door

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/loglimit"
	"github.com/koalagate/koalagate/internal/mapping"
)

// Gate connects a door to the engine. It is safe for concurrent use.
type Gate struct {
	Engine  *engine.Engine
	Mapping mapping.Options
	// Watch observes the calls; nil for none.
	Watch *Watch
	// Logger receives requests without an address of the client, at most one line in
	// loglimit.Every. Nil logs none.
	Logger *slog.Logger

	noAddress loglimit.Line
}

// Hit begins a call of one request and maps it, for doors with one request per call. It
// returns the call that takes one hit, to pass to Decide.
func (g *Gate) Hit(q *Question) engine.Call {
	g.Begin(q, 1)
	return engine.Call{Op: engine.Take, Fault: g.Map(q, 0)}
}

// Arrive notes that the call of a question has arrived. Doors on gRPC call it before
// they read the request; Begin calls it otherwise.
func (g *Gate) Arrive(q *Question) {
	if g.Watch != nil && q.watch == nil {
		q.watch, q.began = g.Watch, time.Now()
	}
}

// Begin starts a call of n parameter sets with the current rules. The whole call
// uses this generation, even if a reload replaces it meanwhile.
func (g *Gate) Begin(q *Question, n int) {
	g.Arrive(q)
	q.rules = g.Engine.Rules()
	q.resize(n)
}

// Map replaces the parameters of input i by the parameters of the question's request. The
// error is a *mapping.Refusal.
func (g *Gate) Map(q *Question, i int) error {
	err := mapping.Params(q.rules, &q.Request, &g.Mapping, q.inputs[i].Params)
	if err != nil {
		g.warn(q, err)
	}
	return err
}

// warn logs a request without an address: probably the gateway's connection has none,
// so that this concerns all requests.
func (g *Gate) warn(q *Question, err error) {
	var refusal *mapping.Refusal
	if g.Logger == nil || !errors.As(err, &refusal) || !refusal.NoAddress {
		return
	}
	if omitted, due := g.noAddress.Due(); due {
		peer := q.Request.Peer
		g.Logger.Warn("request without an address of the client; rules that use it would not match",
			"door", q.Request.Door, "peer", peer[:min(len(peer), 100)], "suppressed", omitted,
			"remedy", "listen on TCP, or supply the parameters from elsewhere than the address; missing_address: keep accepts such requests")
	}
}

// Decide decides the question's inputs in one atomic step of the engine. The caller
// sets c.Op and the fields that belong to the operation, and c.Fault if the request
// could not be mapped; Decide sets the other fields. The decision is valid until q is
// reset or decided again.
func (g *Gate) Decide(ctx context.Context, q *Question, c engine.Call) (*engine.Decision, error) {
	q.call = c
	q.call.Rules, q.call.Door, q.call.Inputs, q.call.Scratch, q.call.Origin = q.rules, q.Request.Door, q.inputs, &q.scratch, q
	q.call.Patience = q.Patience
	if q.watch == nil || q.watch.Decided == nil {
		return g.Engine.Decide(ctx, &q.call)
	}
	began := time.Now()
	d, err := g.Engine.Decide(ctx, &q.call)
	q.watch.Decided(ctx, q, began, d, err)
	return d, err
}

// Watch observes the calls of doors. Each function may be nil. They must return at
// once, and are called concurrently.
type Watch struct {
	// Answered is called when a call ends, with the name of its door and the time
	// from its arrival to its answer.
	Answered func(door string, took time.Duration)
	// Decided is called after each decision, with the context of the call, the
	// question, the time when the decision began, and what engine.Decide returned. It
	// must not retain the question and the decision.
	Decided func(ctx context.Context, q *Question, began time.Time, d *engine.Decision, err error)
}

// end reports the end of a call.
func (w *Watch) end(q *Question) {
	if w.Answered != nil && q.Request.Door != "" {
		w.Answered(q.Request.Door, time.Since(q.began))
	}
}
