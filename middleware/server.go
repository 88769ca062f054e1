// Package middleware provides net/http middleware that admits or refuses the requests
// of a Go program, by the same rules and counters as gateways use.
//
// The middleware needs an engine, which package koalagate opens from rule files:
//
//	gate, err := koalagate.Open(koalagate.Options{Rules: []string{"rules.conf"}})
//	…
//	limit := middleware.New(middleware.Options{Engine: gate.Engine()})
//	http.ListenAndServe("127.0.0.1:8000", limit(mux))
//
// A request that cannot be decided does not reach the handlers, unless FailOpen is set.
//
// Rules with settle=SECONDS, hold rules and rules with conditions on the response learn how
// a request ended: the middleware settles the receipt of the request when its handler
// ends, even if it panics, and the receipt of a hijacked connection when it is closed. Rules see
// the status as response.status; SetHits and SetResponse state more.
//
// A request that rules with mark=WORD marked has their marks in its header X-Koala-Mark. The
// client's own is removed.
package middleware

import (
	"log/slog"
	"net/http"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/door"
	"github.com/koalagate/koalagate/internal/mapping"
)

// Door is the name of the middleware in rules (door=middleware), and in the modes
// and policies of engines.
const Door = "middleware"

// EncodedSlashes decides requests whose paths contain an encoded slash (%2F), according
// to the router behind the middleware. The rules must split a path as the router does;
// otherwise a client can choose a spelling that no rule matches.
type EncodedSlashes int

const (
	// RefuseEncodedSlashes is the zero value: it refuses them with 400, and also paths with
	// a backslash, encoded or not. It suits http.ServeMux and all handlers behind it.
	RefuseEncodedSlashes EncodedSlashes = iota
	// SplitEncodedSlashes reads %2F as a slash, for routers that use r.URL.Path, such
	// as gin and httprouter. These resolve nothing, so paths with dot segments or
	// empty segments (/a/../b, /a//b) are refused.
	SplitEncodedSlashes
	// KeepEncodedSlashes reads %2F as a part of its segment, for http.ServeMux with
	// handlers that use only r.PathValue, and for routers that use r.URL.EscapedPath.
	// Handlers that read r.URL.Path, such as http.FileServer, see a slash.
	KeepEncodedSlashes
)

// mapped returns the option of the mapping; unknown values refuse.
func (e EncodedSlashes) mapped() mapping.EncodedSlashes {
	switch e {
	case SplitEncodedSlashes:
		return mapping.SplitEncodedSlashes
	case KeepEncodedSlashes:
		return mapping.KeepEncodedSlashes
	}
	return mapping.RefuseEncodedSlashes
}

// Options are the options of New. Engine is required: without it every request is
// refused with 503.
type Options struct {
	// Engine decides the requests.
	Engine *engine.Engine
	// TrustedHops is the number of proxies before this process that append to
	// X-Forwarded-For. 0 takes the address of the client from the connection and
	// ignores all headers; a negative number means 0.
	TrustedHops int
	// KeepMalformed decides requests whose hosts are neither names nor addresses, and
	// requests whose paths have an invalid escape, a NUL, a fragment or an encoded dot
	// segment (/a/%2e%2e). An encoded dot segment is then resolved, and the others
	// stand for themselves. Otherwise such requests are refused with 400.
	KeepMalformed bool
	// KeepMissingAddress decides requests without an address of the client, such as
	// peers of a unix socket. Rules that use a parameter from the address then do not
	// match, unless another source supplies its value. By default, if there are such
	// rules, these requests are refused with 400.
	KeepMissingAddress bool
	// EncodedSlashes decides requests whose paths contain an encoded slash. The zero
	// value refuses them, and also backslashes, with 400.
	EncodedSlashes EncodedSlashes
	// Presentation selects the headers of responses. The zero value sends all.
	Presentation engine.Presentation
	// Params returns additional parameters of a request, such as the user of its
	// session. They override the parameters of [params] and [routes] in the rule files. Nil
	// for none.
	Params func(*http.Request) map[string]string
	// Refuse responds to a request that a rule refuses. The headers of the quota
	// are already set; the decision is valid until Refuse returns. If Refuse writes no
	// status, the response has the status of the entry of [result]. Nil sends the
	// status, headers and body of that entry.
	Refuse func(http.ResponseWriter, *http.Request, *engine.Decision)
	// FailOpen lets requests through while no store can answer. Otherwise they
	// are refused with 503. An engine that counts in process always answers. An
	// engine without rules refuses them in either case.
	FailOpen bool
	// Logger receives an error for each request that could not be decided, and
	// warnings about requests without an address. Nil for slog.Default.
	Logger *slog.Logger
}

// server decides for all handlers behind one middleware.
type server struct {
	Options
	gate      door.Gate
	questions door.Pool[door.Question]
}

// New returns the middleware.
func New(o Options) func(http.Handler) http.Handler {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	s := &server{Options: o, gate: door.Gate{
		Engine: o.Engine,
		Mapping: mapping.Options{
			TrustedHops: max(o.TrustedHops, 0), KeepMalformed: o.KeepMalformed,
			KeepMissingAddress: o.KeepMissingAddress, EncodedSlashes: o.EncodedSlashes.mapped(),
		},
		Logger: o.Logger,
	}}
	return func(next http.Handler) http.Handler {
		if next == nil {
			next = http.NotFoundHandler()
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// Whatever becomes of the request: only this middleware marks it.
			delete(r.Header, engine.HeaderMark)
			admitted, receipt := s.admit(w, r)
			if admitted == nil {
				return
			}
			defer keepForm(r, admitted)
			if receipt != "" {
				s.serve(w, admitted, next, receipt)
			} else {
				next.ServeHTTP(w, admitted)
			}
		})
	}
}

// admit returns the request for the handler and its receipt, "" for none; or nil if the
// request may not go to its handler, after it has responded itself.
func (s *server) admit(w http.ResponseWriter, r *http.Request) (admitted *http.Request, receipt string) {
	q := s.questions.Get()
	defer s.release(q)
	d, err := s.decide(r, q)
	if err == nil {
		if !s.apply(w, r, d) {
			return nil, ""
		}
		return s.forward(r, q), d.Receipt
	}
	fault := door.FaultOf(err)
	// A client that disconnected reads no response and is not an error. But if a
	// handler before this one set a deadline, the client still waits, and would take
	// no response for a 200.
	if !fault.IsRequest() && !fault.IsCanceled() {
		s.Logger.Error("a request was not decided", "door", Door, "error", err)
	}
	fault.RequestID = q.RequestID()
	refuse(w, r, fault.Refusal())
	return nil, ""
}

// decide passes a request to the engine. The decision is valid until q is
// released.
func (s *server) decide(r *http.Request, q *door.Question) (*engine.Decision, error) {
	q.Request, q.Patience = requestOf(r), engine.MaxWait
	if s.Params != nil {
		q.Request.Context = s.Params(r)
	}
	return s.gate.Decide(r.Context(), q, s.gate.Hit(q))
}

// release keeps q for a later request, without references to this one.
func (s *server) release(q *door.Question) {
	q.Reset()
	s.questions.Put(q)
}
