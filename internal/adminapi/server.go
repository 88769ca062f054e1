// Package adminapi serves the API of operators below /api/v1/ at the admin address:
// questions about a running instance, and changes. openapi.yaml describes it, and the
// tests hold every path and every field against it. All commands that ask a running
// instance use this API alone.
//
// Each path is a row in one of the tables of routes, with the level that internal/access must
// give its callers. Every change is in the log and in the audit trail with its author.
package adminapi

import (
	_ "embed" // for the description
	"log/slog"
	"net/http"
	"slices"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/access"
	"github.com/koalagate/koalagate/internal/audit"
	"github.com/koalagate/koalagate/internal/exceptions"
	"github.com/koalagate/koalagate/internal/fleet"
	"github.com/koalagate/koalagate/internal/heavy"
	"github.com/koalagate/koalagate/internal/loglimit"
	"github.com/koalagate/koalagate/internal/operations"
	"github.com/koalagate/koalagate/internal/pace"
	"github.com/koalagate/koalagate/internal/traffic"
)

// Prefix is the prefix of all paths.
const Prefix = "/api/v1/"

// AuthorHeader names the header with the author of a change, as the caller states it.
const AuthorHeader = "Koalagate-Author"

//go:embed openapi.yaml
var description []byte

// Options are the options of New. Desk, Exceptions, Trail, Traffic, Heavy, Tokens, State
// and Modes are required.
type Options struct {
	Desk *operations.Desk
	// Exceptions belongs to the engine of Desk.
	Exceptions *exceptions.Keeper
	// Trail keeps and logs all changes.
	Trail *audit.Trail
	// Traffic has the traffic of the last hour, and sends events.
	Traffic *traffic.Recorder
	// Heavy finds the heaviest identities.
	Heavy *heavy.Recorder
	// Trials are the trials of the instance.
	Trials Trials
	// Member is the instance's part in published rules; nil with rules of files.
	Member *fleet.Member
	Tokens *access.Tokens
	// State returns the state of the instance.
	State func() *State
	// Modes are the modes of the doors of the engine.
	Modes *engine.Modes
	// FleetModes sets the modes of all instances; nil if this instance does not follow them.
	FleetModes FleetModes
	// Refused is called for each request without a token that it needs. It may be nil.
	Refused func(reason string)
	// Logger receives log-ins. The default is slog.Default.
	Logger *slog.Logger
}

// server answers the requests of the API.
type server struct {
	Options
	guessed     loglimit.Line // peers that sent too many wrong tokens
	line, brief *pace.Line
}

// route is one path and method of the API.
type route struct {
	method, path string
	needs        access.Level // of callers
	work         work
	answer       func(*server, http.ResponseWriter, *http.Request) error
}

// routes are all of them.
var routes = slices.Concat(open, questions, texts, live, tried, published)

// questions are the routes of every instance.
var questions = []route{
	{http.MethodGet, "openapi.yaml", access.Read, light, (*server).describe},
	{http.MethodPost, "why", access.Read, lengthy, (*server).why},
	{http.MethodPost, "reset", access.Change, light, (*server).reset},
	{http.MethodGet, "audit", access.Read, light, (*server).audit},
	{http.MethodGet, "exceptions", access.Read, lengthy, (*server).exceptions},
	{http.MethodPost, "exceptions", access.Change, byBody, (*server).addExceptions},
	{http.MethodPost, "exceptions/prepare", access.Read, byBody, (*server).prepareExceptions},
	{http.MethodDelete, "exceptions/{id}", access.Change, light, (*server).removeException},
	{http.MethodGet, "bans", access.Read, brief, (*server).bans},
}

// newServer returns a server with the defaults of its options.
func newServer(o Options) *server {
	if o.Refused == nil {
		o.Refused = func(string) {}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Tokens.Sessions == nil {
		o.Tokens.Sessions = access.NewSessions(Prefix)
	}
	return &server{Options: o, line: pace.NewLine(), brief: pace.NewLine()}
}

// New returns the handler of the paths below Prefix.
func New(o Options) http.Handler {
	s := newServer(o)
	mux := http.NewServeMux()
	for _, one := range routes {
		mux.Handle(one.method+" "+Prefix+one.path, s.guard(one))
	}
	mux.HandleFunc(Prefix, func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, problem(http.StatusNotFound, "%s has no %s %.100s; see %sopenapi.yaml", Prefix, r.Method, r.URL.Path, Prefix))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		mux.ServeHTTP(w, r)
	})
}

// guard returns the handler of a route, which answers callers with the token that the route
// needs.
func (s *server) guard(one route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refusal := s.Tokens.Admit(w.Header(), r, one.needs); refusal != nil {
			s.Refused("token")
			if refusal.Status == http.StatusTooManyRequests {
				s.warnOfGuesses(r)
			}
			s.fail(w, r, problem(refusal.Status, "%s", refusal.Detail))
			return
		}
		if err := s.answer(&one, w, r); err != nil {
			s.fail(w, r, problemOf(err))
		}
	})
}

func (s *server) fail(w http.ResponseWriter, r *http.Request, p *Problem) {
	reply(w, r, p.Status, "application/problem+json", p)
}

func (s *server) describe(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(description) // fails only if the caller has disconnected
	return nil
}

func done(w http.ResponseWriter, r *http.Request, body any) error {
	reply(w, r, http.StatusOK, "application/json", body)
	return nil
}
