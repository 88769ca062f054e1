// Package nginx holds the doors on HTTP of gateways that ask before they let a
// request through: nginx (auth_request, X-Accel-Redirect), Caddy, Traefik,
// APISIX and HAProxy (forward-auth), and Envoy's ext_authz in HTTP mode.
//
// The doors walk alike: server.go decides whether the peer may ask and which
// door it asked at, request.go reads the check, response.go words the answer.
// A check is never waved through because of a fault: what cannot be decided is
// a denial, and what fails is a 503.
package nginx

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/rules"
)

// Options are what the doors work with.
type Options struct {
	Engine       *engine.Engine
	Mapping      mapping.Options
	Presentation engine.Presentation
	// TrustedProxies are the peers whose checks are answered; others get 403,
	// since whoever may ask may also claim any address. Nil stands for
	// loopback and the private ranges.
	TrustedProxies []netip.Prefix
	// AccelTargets are the named locations that /v1/accel may send nginx to,
	// the default first; none stands for @app.
	AccelTargets []string
	// Logger hears of gateways that are set up wrongly, and of panics. The
	// default is slog.Default.
	Logger *slog.Logger
}

// server answers the checks of all doors here.
type server struct {
	engine       *engine.Engine
	mapping      mapping.Options
	presentation engine.Presentation
	trusted      []netip.Prefix
	accelTargets []string
	routes       []route
	logger       *slog.Logger
	complaints   complaints
	questions    sync.Pool
}

// route is one path of ours, and the door behind it.
type route struct {
	path    string
	subtree bool // what begins with the path is the door's too
	door    string
}

// New returns the handler of /v1/auth-request, /v1/forward-auth, /v1/accel and
// /v1/ext-authz/*. It must be called without a http.ServeMux before it: one
// would redirect the double slashes and dot segments of the paths that Envoy
// sends.
func New(o Options) http.Handler {
	s := &server{
		engine:       o.Engine,
		mapping:      o.Mapping,
		presentation: o.Presentation,
		trusted:      o.TrustedProxies,
		accelTargets: o.AccelTargets,
		logger:       o.Logger,
		routes: []route{
			{path: "/v1/auth-request", door: doorname.AuthRequest},
			{path: "/v1/forward-auth", door: doorname.ForwardAuth},
			{path: "/v1/ext-authz", door: doorname.ExtAuthzWeb, subtree: true},
			{path: "/v1/accel", door: doorname.Accel},
		},
	}
	if s.trusted == nil {
		s.trusted = privateRanges()
	}
	if len(s.accelTargets) == 0 {
		s.accelTargets = []string{"@app"}
	}
	if s.logger == nil {
		s.logger = slog.Default()
	}
	s.complaints.logger = s.logger
	s.questions.New = func() any { return new(question) }
	return s
}

// ServeHTTP answers one check.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	target := targetOf(r)
	a := &answer{server: s, w: w, check: r, door: s.doorOf(target), target: target}
	defer a.recover()
	switch {
	case !s.trusts(r):
		s.complaints.warn("refused the check of a peer that is not in trusted_proxies", "peer", r.RemoteAddr, "remedy", "if it is a gateway of yours, add its address there")
		a.problem(http.StatusForbidden, "")
	case a.door == "":
		s.complaints.warn("refused a check at a path that is none of a door", "path", r.URL.Path[:min(len(r.URL.Path), 100)], "peer", r.RemoteAddr,
			"remedy", "have the gateway ask /v1/auth-request, /v1/forward-auth, /v1/accel or /v1/ext-authz/…")
		a.problem(http.StatusNotFound, "")
	default:
		q := s.questions.Get().(*question)
		defer s.release(q)
		a.give(s.decide(r, a.door, target, q))
	}
}

// doorOf finds the door that a request target asks at, "" for none.
func (s *server) doorOf(target string) string {
	path, _, _ := strings.Cut(target, "?")
	for i := range s.routes {
		t := &s.routes[i]
		if path == t.path || t.subtree && strings.HasPrefix(path, t.path) {
			return t.door
		}
	}
	return ""
}

// decide takes a check to the engine. The decision holds as long as q is not
// released.
func (s *server) decide(r *http.Request, door string, target string, q *question) (*engine.Decision, error) {
	set := s.engine.Rules()
	q.read(r, door, target)
	fault := mapping.Params(set, &q.request, &s.mapping, &q.params)
	s.complain(r, door, fault)
	s.suspect(r, door, target)
	return s.engine.Decide(r.Context(), q.ask(set, fault))
}

// complain tells of a gateway that leaves out a header. A malformed path is
// the client's doing, and no matter for the log.
func (s *server) complain(r *http.Request, door string, fault error) {
	if fault == nil {
		return
	}
	var refusal *mapping.Refusal
	if errors.As(fault, &refusal) && len(refusal.Missing) > 0 {
		s.complaints.warn(refusal.Reason, "door", door, "missing", refusal.Missing, "peer", r.RemoteAddr)
	}
}

// suspect tells of a gateway that seems to append the client's query to the URL
// of its checks, as Caddy does where the URL has no question mark: the client
// then chooses parameters. A request that happens to have the same query as the
// check is why this is no more than a line in the log.
func (s *server) suspect(r *http.Request, door string, target string) {
	_, query, _ := strings.Cut(target, "?")
	if query == "" || door == doorname.ExtAuthzWeb {
		return
	}
	about := cmp.Or(r.Header.Get("X-Original-Uri"), r.Header.Get("X-Original-Url"))
	if door == doorname.ForwardAuth {
		about = r.Header.Get("X-Forwarded-Uri")
	}
	if _, asked, _ := strings.Cut(about, "?"); asked == query {
		s.complaints.warn("a check has the query of its request; if the gateway appends it, clients choose parameters: end the URL of the check with a question mark",
			"door", door, "peer", r.RemoteAddr)
	}
}

// recover ends a panic of this check here: net/http would cut the connection,
// and gateways that lose one may let the request through.
func (a *answer) recover() {
	if v := recover(); v != nil {
		a.server.logger.Error("a check panicked", "door", a.door, "panic", v, "stack", string(debug.Stack()))
		a.fail()
	}
}

// question is what one check needs on its way to the engine, kept for the
// next.
type question struct {
	request mapping.Request
	params  rules.Params
	sets    [1]engine.Input
	call    engine.Call
	room    engine.Scratch
}

// ask is the call that puts the question; fault is what the mapping found wrong
// with it.
func (q *question) ask(set *rules.Set, fault error) *engine.Call {
	q.sets[0] = engine.Input{Params: &q.params, Hits: 1}
	q.call = engine.Call{Rules: set, Door: q.request.Door, Op: engine.Take, Inputs: q.sets[:], Fault: fault, Scratch: &q.room}
	return &q.call
}

// release keeps q for another check, without what it holds of this one.
func (s *server) release(q *question) {
	q.params.Reset()
	q.request, q.call = mapping.Request{}, engine.Call{}
	s.questions.Put(q)
}
