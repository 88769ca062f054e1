// Package koala is the door of Koala's own HTTP API, so that applications written for
// Koala work unchanged.
//
// A call takes these steps: server.go finds the endpoint of its path and checks
// whether the caller may use it; request.go reads the arguments of the query and the
// form; endpoints.go chooses the operation, which a door.Gate decides; response.go
// writes the reply. Unlike the other doors, this one offers all operations of the
// engine and not only Take.
//
// The callers are applications, which are trusted with the parameters that they send.
// Replies are JSON with status 200 whatever the verdict.
//
// The package serves package internal/service: its API may change in any release. Go
// programs use the packages koalagate, engine, rules and middleware.
package koala

import (
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/bearer"
	"github.com/koalagate/koalagate/internal/browser"
	"github.com/koalagate/koalagate/internal/door"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/loglimit"
	"github.com/koalagate/koalagate/internal/mapping"
)

// Access is the part of the API that callers may use.
type Access string

// The forms of the setting `koala_api`.
const (
	Full Access = "full" // all of it
	Read Access = "read" // calls that change no counter
	Off  Access = "off"  // nothing; any other value means the same
)

// Options configure the door. Only Engine is required; without Access, the API is off.
type Options struct {
	Engine  *engine.Engine
	Mapping mapping.Options
	Access  Access
	// Token is the token that callers must send as `Authorization: Bearer TOKEN`;
	// "" requires none.
	Token string
	// Hosts lists the host names under which applications call, in addition to IP
	// addresses, localhost, names of one label, and names that end in .svc or
	// .svc.cluster.local. Calls with other names get 421, because a web page could
	// have resolved its own name to this address (DNS rebinding).
	Hosts []string
	// RedisAway reports whether Redis is configured and unreachable, for
	// /monitor/alive. Nil means never.
	RedisAway func() bool
	// Watch observes the calls; nil for none.
	Watch *door.Watch
	// Refused is called for each call that is refused because of its peer or its path,
	// with the reason: token, unknown_path, host or web_page. It must return at once,
	// and may be nil.
	Refused func(reason string)
	// Logger receives panics and calls that failed. The default is slog.Default.
	Logger *slog.Logger
}

// server answers the calls of Koala's API.
type server struct {
	gate      door.Gate
	access    Access
	token     string // "" if calls need none
	hosts     []string
	redisAway func() bool
	refused   func(reason string)
	logger    *slog.Logger
	endpoints map[string]endpoint
	guesses   bearer.Guesses
	guessed   loglimit.Line // peers that sent too many wrong tokens
	barred    loglimit.Line // calls refused by bars
	unknown   loglimit.Line // calls of unknown paths
	calls     door.Pool[call]
}

// endpoint is the implementation of one path.
type endpoint struct {
	answer func(*call)
	writes bool // whether it changes counters regardless of arguments
	probe  bool // whether load balancers call it, under any host name
}

// New returns the handler of Koala's paths. It must not be behind an http.ServeMux,
// because slashes around a path do not matter, as in Koala.
func New(o Options) http.Handler {
	s := &server{
		gate:      door.Gate{Engine: o.Engine, Mapping: o.Mapping, Watch: o.Watch},
		access:    o.Access,
		token:     o.Token,
		hosts:     o.Hosts,
		redisAway: o.RedisAway,
		refused:   o.Refused,
		logger:    o.Logger,
		endpoints: map[string]endpoint{
			"rule/browse":          {answer: (*call).browse},
			"rule/browse_complete": {answer: (*call).browseComplete},
			"rule/take":            {answer: (*call).take, writes: true},
			"rule/update":          {answer: (*call).update, writes: true},
			"rule/refund":          {answer: (*call).refund, writes: true},
			"rule/feedback":        {answer: (*call).feedback, writes: true},
			"rule/value":           {answer: (*call).value},
			"rule/reset":           {answer: (*call).reset, writes: true},
			"rule/settle":          {answer: (*call).settle, writes: true},
			"rule/renew":           {answer: (*call).renew, writes: true},
			"multi/browse":         {answer: (*call).multiBrowse},
			"monitor/alive":        {answer: (*call).alive, probe: true},
			"admin/allrules":       {answer: (*call).allRules},
		},
	}
	if s.access != Full && s.access != Read {
		s.access = Off
	}
	if s.redisAway == nil {
		s.redisAway = func() bool { return false }
	}
	if s.refused == nil {
		s.refused = func(string) {}
	}
	if s.logger == nil {
		s.logger = slog.Default()
	}
	return s
}

// ServeHTTP answers one call.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := s.calls.Get()
	c.server, c.w, c.http = s, w, r
	c.question.Request.Door = doorname.Koala
	s.gate.Begin(&c.question, 1)
	defer s.end(c)
	if e, ok := c.endpoint(); ok {
		e.answer(c)
	}
}

// endpoint returns the endpoint of the call and reads the arguments. If the endpoint
// does not exist, is not allowed or the arguments cannot be read, it replies with the
// reason and returns false.
func (c *call) endpoint() (endpoint, bool) {
	e, known := c.server.endpoints[strings.Trim(c.http.URL.Path, "/")]
	admitted, wait := c.server.admits(c.http)
	switch {
	case wait > 0:
		c.server.refused("token")
		c.server.warnGuesses(c.http)
		c.fail(http.StatusTooManyRequests, bearer.Refuse(c.w.Header(), wait))
	case !admitted:
		c.server.refused("token")
		c.fail(http.StatusForbidden, "the call needs the token of koala_token: Authorization: Bearer TOKEN")
	case !known:
		c.server.refused("unknown_path")
		c.server.warnUnknown(c.http)
		c.fail(http.StatusNotFound, "not found")
	case !e.probe && c.server.bars(c):
	case !c.server.opens(e.writes):
		c.forbid()
	case c.http.Method != http.MethodGet && c.http.Method != http.MethodHead && c.http.Method != http.MethodPost:
		c.w.Header().Set("Allow", "GET, HEAD, POST")
		c.fail(http.StatusMethodNotAllowed, "want GET or POST")
	default:
		return e, c.read()
	}
	return e, false
}

// bars refuses a call that a web page in a browser may have sent, and reports whether
// it did. A GET may write here, so that it is not exempt.
func (s *server) bars(c *call) bool {
	refusal := browser.Refuse(c.http, s.hosts, "koala_hosts")
	if refusal == nil {
		return false
	}
	s.refused(refusal.Kind)
	if skipped, due := s.barred.Due(); due {
		host := c.http.Host
		s.logger.Warn("call of Koala's API refused: "+refusal.Reason, "host", host[:min(len(host), 100)], "peer", c.http.RemoteAddr, "suppressed", skipped)
	}
	c.fail(refusal.Status, refusal.Reason)
	return true
}

// warnUnknown logs a call of an unknown path. Most come from gateways, which then
// fail silently, possibly open.
func (s *server) warnUnknown(r *http.Request) {
	if omitted, due := s.unknown.Due(); due {
		path := r.URL.Path
		s.logger.Warn("call of an unknown path refused", "path", path[:min(len(path), 100)], "peer", r.RemoteAddr,
			"remedy", "point gateways at /v1/auth-request, /v1/forward-auth, /v1/accel or /v1/ext-authz/…, and Envoy over HTTP at path_prefix: /v1/ext-authz", "suppressed", omitted)
	}
}

// admits reports whether a call has the token, if one is required, and how long its peer
// must wait if it was not compared, after too many wrong ones.
func (s *server) admits(r *http.Request) (bool, time.Duration) {
	if s.token == "" {
		return true, 0
	}
	index, wait := s.guesses.Try(r, bearer.Token(r), s.token)
	return index == 0, wait
}

// warnGuesses logs a peer that sent too many wrong tokens.
func (s *server) warnGuesses(r *http.Request) {
	if skipped, due := s.guessed.Due(); due {
		s.logger.Warn("an address that sent too many wrong tokens must wait", "peer", r.RemoteAddr,
			"remedy", "give the application the token of koala_token; if it is no application of yours, restrict access to the address", "suppressed", skipped)
	}
}

// opens reports whether the setting koala_api allows calls that write, or calls that
// do not.
func (s *server) opens(writes bool) bool {
	return s.access == Full || s.access == Read && !writes
}

// end replies to a call that panicked, and otherwise returns it to the pool.
func (s *server) end(c *call) {
	if v := recover(); v != nil {
		s.logger.Error("a call panicked", "door", doorname.Koala, "panic", v, "stack", string(debug.Stack()))
		if !c.begun {
			c.fail(http.StatusServiceUnavailable, "internal error; the service's log has the details")
		}
		return
	}
	c.question.Reset()
	*c = call{question: c.question, body: c.body[:0]}
	s.calls.Put(c)
}
