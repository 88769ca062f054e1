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

// Take maps the question's request and decides it as one hit. It is Begin, Map and
// Decide in one call, for doors with one request per call. The decision is valid
// until q is reset. FaultOf explains the error.
func (g *Gate) Take(ctx context.Context, q *Question) (*engine.Decision, error) {
	g.Begin(q, 1)
	fault := g.Map(q, 0)
	return g.Decide(ctx, q, engine.Call{Op: engine.Take, Fault: fault})
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
