// Package door holds the steps that a request takes at every door. Each door reads a
// call of its protocol into a Question, a Gate decides the question, and the door
// writes the decision, or the Fault if there is none, as an answer of its protocol.
//
// Code that concerns all doors belongs here: Gate.Map sees every request before its
// parameters are used, calls of gateways reach Engine.Decide by Gate.Decide alone, FaultOf decides
// what clients receive when there is no decision, and Question bounds the memory that
// a door keeps between calls. The bounds on parameters are in internal/mapping; the
// headers and problem documents of answers are in engine. The doors on gRPC share
// codes and metadata in internal/envoyapi, which stays apart so that Go programs with
// the middleware do not link gRPC.
package door

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/httptext"
	"github.com/koalagate/koalagate/internal/loglimit"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/rules"
)

// Gate connects a door to the engine. It is safe for concurrent use.
type Gate struct {
	Engine  *engine.Engine
	Mapping mapping.Options
	// Watch observes the calls; nil for none.
	Watch *Watch
	// Logger receives requests without an address of the client, and parameters that
	// applications do not receive, at most one line of each in loglimit.Every. Nil logs none.
	Logger *slog.Logger

	noAddress, unsent loglimit.Line
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
	} else if g.Watch != nil && g.Watch.Mapped != nil {
		g.Watch.Mapped(q, i)
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
	q.ask(c)
	if q.watch == nil || q.watch.Decided == nil {
		return g.Engine.Decide(ctx, &q.call)
	}
	began := time.Now()
	d, err := g.Engine.Decide(ctx, &q.call)
	q.watch.Decided(ctx, q, began, d, err)
	return d, err
}

// Assign shares the limits that the question's only input meets, for gateways that decide
// by themselves. It completes c as Decide does.
func (g *Gate) Assign(ctx context.Context, q *Question, c engine.Call, u *engine.Usage) (*engine.Assignment, error) {
	q.ask(c)
	return g.Engine.Assign(ctx, &q.call, u)
}

// ask makes c the call of the question.
func (q *Question) ask(c engine.Call) {
	q.call = c
	q.call.Rules, q.call.Door, q.call.Inputs, q.call.Scratch, q.call.Origin = q.rules, q.Request.Door, q.inputs, &q.scratch, q
	q.call.Patience = q.Patience
}

// Watch observes the calls of doors. Each function may be nil. They must return at
// once, and are called concurrently.
type Watch struct {
	// Answered is called when a call ends, with the name of its door and the time
	// from its arrival to its answer.
	Answered func(door string, took time.Duration)
	// Mapped is called after Gate.Map has derived the parameters of input i of a question.
	Mapped func(q *Question, i int)
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

// Question carries one call from a door to the engine, together with the memory
// that the call and its decision need. Doors reuse questions by a Pool. The zero
// value is ready for Gate.Begin.
type Question struct {
	asked
	// What follows is memory for the next call, too.
	inputs  []engine.Input
	params  []rules.Params // of the inputs, and of earlier calls with more inputs
	scratch engine.Scratch
}

// asked is what belongs to one call.
type asked struct {
	// Request is the request as it arrived, set by the door before Gate.Map.
	Request mapping.Request
	// Patience is the longest time that the caller can wait for its turn, in addition
	// to the deadline of its context, as engine.Call.Patience. The door sets it.
	Patience time.Duration
	// Metadata belongs to the gateway's own call, such as gRPC metadata; nil for none.
	Metadata mapping.Headers

	watch *Watch    // nil if nothing watches the call
	began time.Time // set if watch is

	rules *rules.Set
	call  engine.Call
	kept  []kept
}

// kept is a copy of the request of an input for a rule set.
type kept struct {
	input   int
	set     *rules.Set
	request *mapping.Request
}

// Keep keeps a copy of the request of input i, from which set derives parameters after the call.
func (q *Question) Keep(i int, set *rules.Set) {
	q.kept = append(q.kept, kept{i, set, q.Request.Keep(set)})
}

// StateResponse sets the parameters of a response that entries of a call state: those whose names
// begin with rules.ResponsePrefix. The first entry with a name counts, as with all arguments.
func StateResponse(response *rules.Params, entries []mapping.Entry) {
	for i := range entries {
		e := &entries[i]
		if !strings.HasPrefix(e.Key, rules.ResponsePrefix) {
			continue
		}
		if _, stated := response.Get(e.Key); !stated {
			response.Set(e.Key, e.Value)
		}
	}
}

// Kept returns the request of input i that was kept for set; nil without one.
func (q *Question) Kept(i int, set *rules.Set) *mapping.Request {
	at := slices.IndexFunc(q.kept, func(k kept) bool { return k.input == i && k.set == set })
	if at < 0 {
		return nil
	}
	return q.kept[at].request
}

// Rules returns the rules of the call, one generation for the whole call.
func (q *Question) Rules() *rules.Set { return q.rules }

// Inputs returns the parameter sets, as many as Gate.Begin was called with. Each is
// one hit until the door changes it.
func (q *Question) Inputs() []engine.Input { return q.inputs }

// RequestID returns the x-request-id of the request, or else of the gateway's call; ""
// if it is missing or not valid.
func (q *Question) RequestID() string {
	for _, from := range []mapping.Headers{q.Request.Headers, q.Metadata} {
		if from == nil {
			continue
		}
		if id, found := from.Header("x-request-id"); found && httptext.ValidRequestID(id) {
			return id
		}
	}
	return ""
}

// Fault returns the error of mapping the request, or nil. A door whose mode is not
// enforce has a decision nevertheless.
func (q *Question) Fault() error { return q.call.Fault }

// A question keeps its memory for the next call up to these sizes. Larger calls are
// rare, and their memory would stay in the pool.
const (
	keptInputs    = 64
	keptArguments = 64
)

// Reset ends the call: it drops everything that belongs to the call and keeps the
// memory.
func (q *Question) Reset() {
	if q.watch != nil {
		q.watch.end(q)
	}
	if len(q.inputs) > keptInputs {
		*q = Question{}
		return
	}
	for i := range q.inputs {
		q.params[i].Reset()
	}
	clear(q.inputs)
	arguments := q.Request.Args
	if cap(arguments) > keptArguments {
		arguments = nil
	}
	clear(arguments[:cap(arguments)]) // a call may replace its arguments by fewer
	q.asked = asked{Request: mapping.Request{Args: arguments[:0]}}
	q.inputs = q.inputs[:0]
}

// Resize replaces the parameter sets by n empty ones of one hit, for calls that decide
// several times by the same rules.
func (q *Question) Resize(n int) {
	for i := range q.inputs {
		q.params[i].Reset()
	}
	q.resize(n)
}

// resize makes n inputs of one hit with empty parameters.
func (q *Question) resize(n int) {
	q.inputs, q.kept = slices.Grow(q.inputs[:0], n)[:n], nil
	for len(q.params) < n {
		q.params = append(q.params, rules.Params{})
	}
	for i := range q.inputs {
		q.inputs[i] = engine.Input{Params: &q.params[i]}
	}
}

// Pool keeps values between calls. The zero value is an empty pool, and new values
// are zero values of T. It is safe for concurrent use.
type Pool[T any] struct{ pool sync.Pool }

// Get returns a value from the pool, or a new one.
func (p *Pool[T]) Get() *T {
	if v, ok := p.pool.Get().(*T); ok {
		return v
	}
	return new(T)
}

// Put returns a value to the pool. The caller must have reset it and must not use it
// afterwards.
func (p *Pool[T]) Put(v *T) { p.pool.Put(v) }
