// Package door holds the steps that a request takes at every door. Each door reads a
// call of its protocol into a Question, a Gate decides the question, and the door
// writes the decision, or the Fault if there is none, as an answer of its protocol.
//
// Code that concerns all doors belongs here: Gate.Map sees every request before its
// parameters are used, Gate.Decide is the only caller of the engine, FaultOf decides
// what clients receive when there is no decision, and Question bounds the memory that
// a door keeps between calls. The bounds on parameters are in internal/mapping; the
// headers and problem documents of answers are in engine. The doors on gRPC share
// codes and metadata in internal/envoyapi, which stays apart so that Go programs with
// the middleware do not link gRPC.
package door

import (
	"slices"
	"sync"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/httptext"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/rules"
)

// Question carries one call from a door to the engine, together with the memory
// that the call and its decision need. Doors reuse questions by a Pool. The zero
// value is ready for Gate.Begin.
type Question struct {
	// Request is the request as it arrived, set by the door before Gate.Map.
	Request mapping.Request
	// Patience is the longest time that the caller can wait for its turn, in addition
	// to the deadline of its context, as engine.Call.Patience. The door sets it.
	Patience time.Duration
	// Metadata belongs to the gateway's own call, such as gRPC metadata; nil for none.
	Metadata mapping.Headers

	watch *Watch    // nil if nothing watches the call
	began time.Time // set if watch is

	rules   *rules.Set
	inputs  []engine.Input
	params  []rules.Params // of the inputs, and of earlier calls with more inputs
	call    engine.Call
	scratch engine.Scratch
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
	*q = Question{
		Request: mapping.Request{Args: arguments[:0]},
		inputs:  q.inputs[:0], params: q.params, scratch: q.scratch,
	}
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
	q.inputs = slices.Grow(q.inputs[:0], n)[:n]
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
