// Package nginx contains the doors of gateways that send a check over HTTP before
// they forward a request: nginx (auth_request, X-Accel-Redirect), Caddy, Traefik,
// APISIX and HAProxy (forward-auth), and Envoy's ext_authz in HTTP mode.
//
// A check takes the same steps at each of these doors: server.go checks whether its peer is
// trusted and finds the door of its path; request.go reads it; a door.Gate decides it;
// response.go writes the answer in the form that the gateway expects. A fault never allows a
// request: a check that cannot be decided is denied, and an internal failure is a 503.
// settle.go takes the reports of how requests ended, and report.go settlements from nginx's
// access log. complaints.go logs gateways that are misconfigured.
//
// The package serves package internal/service: its API may change in any release. Go
// programs use the packages koalagate, engine, rules and middleware.
package nginx

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/door"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/peer"
)

// Options configure the doors. Only Engine is required.
type Options struct {
	Engine       *engine.Engine
	Mapping      mapping.Options
	Presentation engine.Presentation
	// TrustedProxies are the peers that may send checks. All other peers receive
	// 403, because a check can claim any client address. Nil means loopback and the
	// private ranges.
	TrustedProxies []netip.Prefix
	// AccelTargets are the named locations that /v1/accel may redirect nginx to, the
	// default first. Empty means @app.
	AccelTargets []string
	// Watch observes the checks; nil for none.
	Watch *door.Watch
	// Refused is called for each check that is refused because of its peer or its
	// path, with the reason: untrusted or unknown_path. It must return at once, and may
	// be nil.
	Refused func(reason string)
	// ExtAuthzWait is the longest time that Envoy waits for the answer of
	// /v1/ext-authz, and so the longest wait of a check for its turn. With 0 no check
	// waits there.
	ExtAuthzWait time.Duration
	// Logger receives misconfigurations of gateways, parameters that applications do not
	// receive, and panics. The default is slog.Default.
	Logger *slog.Logger
}

// server answers the checks of all doors in this package.
type server struct {
	gate         door.Gate
	presentation engine.Presentation
	trusted      []netip.Prefix
	accelTargets []string
	extAuthzWait time.Duration
	routes       []route
	refused      func(reason string)
	logger       *slog.Logger
	complaints   complaints
	questions    door.Pool[door.Question]
}

// route is the path of a door.
type route struct {
	path    string
	subtree bool // whether longer targets with this prefix belong to the door
	door    string
}

// New returns the handler of /v1/auth-request, /v1/forward-auth, /v1/accel, /v1/ext-authz/*,
// /v1/settle and /v1/renew. It must not be behind an http.ServeMux, which would redirect
// paths with double slashes or dot segments, as Envoy sends them.
func New(o Options) http.Handler {
	s := &server{
		gate:         door.Gate{Engine: o.Engine, Mapping: o.Mapping, Watch: o.Watch},
		presentation: o.Presentation,
		trusted:      o.TrustedProxies,
		accelTargets: o.AccelTargets,
		refused:      o.Refused,
		extAuthzWait: o.ExtAuthzWait,
		logger:       o.Logger,
		routes: []route{
			{path: "/v1/auth-request", door: doorname.AuthRequest},
			{path: "/v1/forward-auth", door: doorname.ForwardAuth},
			{path: "/v1/ext-authz", door: doorname.ExtAuthzWeb, subtree: true},
			{path: "/v1/accel", door: doorname.Accel},
		},
	}
	if s.trusted == nil {
		s.trusted = peer.PrivateRanges()
	}
	if len(s.accelTargets) == 0 {
		s.accelTargets = []string{"@app"}
	}
	if s.refused == nil {
		s.refused = func(string) {}
	}
	if s.logger == nil {
		s.logger = slog.Default()
	}
	s.gate.Logger, s.complaints.logger = s.logger, s.logger
	return s
}

// ServeHTTP answers one check.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	target := targetOf(r)
	path, _, _ := strings.Cut(target, "?")
	a := &answer{server: s, w: w, check: r, door: s.doorOf(path), target: target}
	defer a.recover()
	switch {
	case !peer.IsTrusted(r, s.trusted):
		s.refused("untrusted")
		s.complaints.warn("refused a check from a peer that is not in trusted_proxies", "peer", r.RemoteAddr, "remedy", "if the peer is a gateway of yours, add its address to trusted_proxies")
		a.problem(http.StatusForbidden, "")
	case receiptPaths[path] != nil:
		a.settle(r.Context(), path)
	case a.door == "":
		s.refused("unknown_path")
		s.complaints.warn("refused a check at a path without a door", "path", r.URL.Path[:min(len(r.URL.Path), 100)], "peer", r.RemoteAddr,
			"remedy", "point the gateway at /v1/auth-request, /v1/forward-auth, /v1/accel or /v1/ext-authz/…")
		a.problem(http.StatusNotFound, "")
	default:
		q := s.questions.Get()
		defer s.release(q)
		d, err := s.decide(w, r, a.door, target, q)
		a.write(q, d, err)
	}
}

// doorOf returns the name of the door that the path of a request belongs to, "" for none.
func (s *server) doorOf(path string) string {
	for i := range s.routes {
		t := &s.routes[i]
		if path == t.path || t.subtree && strings.HasPrefix(path, t.path) {
			return t.door
		}
	}
	return ""
}

// decide decides a check at a door. The decision is valid until q is released.
func (s *server) decide(w http.ResponseWriter, r *http.Request, name, target string, q *door.Question) (*engine.Decision, error) {
	q.Request = requestOf(r, name, target)
	if s.gate.Engine.Rules().HasWaits() {
		q.Patience = s.patience(r, name, target)
		s.extendDeadlines(w, q.Patience)
	}
	d, err := s.gate.Decide(r.Context(), q, s.gate.Hit(q))
	s.warnMissing(r, name, q.Fault())
	s.warnQuery(r, name, target)
	return d, err
}

// answerTime is the time for the answer after a wait.
const answerTime = 10 * time.Second

// extendDeadlines lets the connection of a check last until the end of a wait. The
// server's read deadline would cancel the check, and its write deadline would fail the
// answer.
func (s *server) extendDeadlines(w http.ResponseWriter, wait time.Duration) {
	c, end := http.NewResponseController(w), time.Now().Add(wait+answerTime)
	if err := errors.Join(c.SetReadDeadline(end), c.SetWriteDeadline(end)); err != nil {
		s.logger.Debug("the deadlines of a check that may wait were not extended", "error", err)
	}
}

// patience returns the longest time that the gateway waits for the answer to a check.
// Without _wait a check does not wait for its turn: a gateway that gives up before may
// let the request through. At ext-authz the query of the URL is the client's.
func (s *server) patience(r *http.Request, name, target string) time.Duration {
	patience, found := s.extAuthzWait, s.extAuthzWait > 0
	if name != doorname.ExtAuthzWeb {
		patience, found = patienceOf(target)
	}
	if !found {
		s.complaints.warn("a check does not wait for its turn, although rules have a wait: its URL has no valid _wait=SECONDS, or ext_authz_wait is not set",
			"door", name, "peer", r.RemoteAddr, "remedy", "state a time below the gateway's timeout")
	}
	return patience
}

// release returns a question to the pool.
func (s *server) release(q *door.Question) {
	q.Reset()
	s.questions.Put(q)
}

// warnMissing logs a gateway that omits a header. A malformed path is the fault of a
// client and is not logged.
func (s *server) warnMissing(r *http.Request, name string, fault error) {
	if fault == nil {
		return
	}
	var refusal *mapping.Refusal
	if errors.As(fault, &refusal) && len(refusal.Missing) > 0 {
		s.complaints.warn(refusal.Reason, "door", name, "missing", refusal.Missing, "peer", r.RemoteAddr)
	}
}

// warnQuery logs a gateway that seems to append the client's query to the URL of its
// checks, as Caddy does if the URL has no question mark: clients can then choose
// parameters. It only logs, because the query of a request may equal the query of the check
// by chance.
func (s *server) warnQuery(r *http.Request, name, target string) {
	_, query, _ := strings.Cut(target, "?")
	if query == "" || name == doorname.ExtAuthzWeb {
		return
	}
	original := cmp.Or(r.Header.Get("X-Original-Uri"), r.Header.Get("X-Original-Url"))
	if name == doorname.ForwardAuth {
		original = r.Header.Get("X-Forwarded-Uri")
	}
	if _, sent, _ := strings.Cut(original, "?"); sent == query {
		s.complaints.warn("a check has the query of its request; if the gateway appends it, clients choose parameters: end the URL of the check with a question mark",
			"door", name, "peer", r.RemoteAddr)
	}
}

// recover answers a check that panicked with 503. net/http would close the connection
// instead, and some gateways then let the request through.
func (a *answer) recover() {
	if v := recover(); v != nil {
		a.server.logger.Error("a check panicked", "door", a.door, "panic", v, "stack", string(debug.Stack()))
		a.fail()
	}
}
