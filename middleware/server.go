// Package middleware is the door of Go programs: a net/http middleware that
// lets requests through to the program's own handlers, or refuses them, by the
// same rules and the same counters as the gateways.
//
// It takes an engine, which the package koalagate opens from rule files:
//
//	gate, err := koalagate.Open(koalagate.Options{Rules: []string{"rules.conf"}})
//	…
//	limit := middleware.New(middleware.Options{Engine: gate.Engine()})
//	http.ListenAndServe("127.0.0.1:8000", limit(mux))
//
// Like the other doors it has server.go for the way of a request, request.go
// to read it, and response.go to word the answer.
package middleware

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/mapping"
)

// Options are what the middleware works with. Only Engine is required.
type Options struct {
	Engine *engine.Engine
	// Mapping says whose word about the client's address is taken: without
	// TrustedHops it is the peer of the connection, whatever headers say.
	Mapping      mapping.Options
	Presentation engine.Presentation
	// Params are parameters that the program knows of a request, such as the
	// user of its session; they go before what [params] and [routes] of the
	// rule file say. Nil for none.
	Params func(*http.Request) map[string]string
	// Refuse answers a request that a rule refuses, in place of the status,
	// headers and body of the rule's [result] entry; the headers of the quota
	// are set already. The decision holds until it returns. Nil for the entry's
	// own.
	Refuse func(http.ResponseWriter, *http.Request, *engine.Decision)
	// FailOpen lets requests through while no store can answer; else they get
	// a 503. An engine that counts in process always answers.
	FailOpen bool
	// Logger hears of requests that could not be decided. The default is
	// slog.Default.
	Logger *slog.Logger
}

// server decides for all handlers behind one middleware.
type server struct {
	Options
	questions sync.Pool
}

// New returns the middleware.
func New(o Options) func(http.Handler) http.Handler {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	s := &server{Options: o}
	s.questions.New = func() any { return new(question) }
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if s.admit(w, r) {
				next.ServeHTTP(w, r)
			}
		})
	}
}

// admit tells whether a request goes on to its handler; else it is answered.
func (s *server) admit(w http.ResponseWriter, r *http.Request) bool {
	q := s.questions.Get().(*question)
	defer s.release(q)
	d, err := s.decide(r, q)
	if err == nil {
		return s.carryOut(w, r, d)
	}
	var refusal *mapping.Refusal
	switch {
	case errors.As(err, &refusal):
		problem(w, r, refusal.Status, refusal.Reason)
	case engine.IsInvalid(err):
		problem(w, r, http.StatusBadRequest, err.Error())
	default:
		// A client that has gone reads no answer and is no fault. One whose time a
		// handler before this one has bounded still waits, and would take silence
		// for a 200.
		if !errors.Is(err, context.Canceled) {
			s.Logger.Error("a request was not decided", "door", doorname.Middleware, "error", err)
		}
		problem(w, r, http.StatusServiceUnavailable, "")
	}
	return false
}

// decide takes a request to the engine. The decision holds as long as q is not
// released.
func (s *server) decide(r *http.Request, q *question) (*engine.Decision, error) {
	set := s.Engine.Rules()
	q.read(r)
	if s.Params != nil {
		q.request.Context = s.Params(r)
	}
	fault := mapping.Params(set, &q.request, &s.Mapping, &q.params)
	return s.Engine.Decide(r.Context(), q.ask(set, fault))
}
