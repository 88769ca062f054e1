// Package koala is the door of Koala's own HTTP API, so that applications
// written for Koala work unchanged: server.go has the paths and who may use
// them, request.go reads a call, response.go spells the replies.
//
// Its callers are applications that are trusted with the parameters they send.
// Replies are JSON, with status 200 whatever the verdict.
package koala

import (
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/ration"
)

// Access says how much of the API is open.
type Access string

// The forms of the setting `koala_api`.
const (
	Full Access = "full" // all of it
	Read Access = "read" // what changes no counter
	Off  Access = "off"  // nothing; so is any other value
)

// Options are what the door works with.
type Options struct {
	Engine  *engine.Engine
	Mapping mapping.Options
	Access  Access
	// Token is what callers have to send as `Authorization: Bearer TOKEN`; ""
	// asks for none.
	Token string
	// RedisAway tells whether Redis is configured and does not answer, for
	// /monitor/alive. Nil means never.
	RedisAway func() bool
	// Logger hears of panics and of calls that failed. The default is
	// slog.Default.
	Logger *slog.Logger
}

// server answers the calls of Koala's API.
type server struct {
	engine    *engine.Engine
	mapping   mapping.Options
	access    Access
	token     *[sha256.Size]byte // of the digest, so that its length shows nothing; nil for none
	redisAway func() bool
	logger    *slog.Logger
	endpoints map[string]endpoint
	unknown   ration.Line // a path that is none of ours
	calls     sync.Pool
}

// endpoint is what one path does.
type endpoint struct {
	answer func(*call)
	writes bool // changes counters, whatever the call says
}

// New returns the handler of Koala's paths. It must be called without a
// http.ServeMux before it: as in Koala, slashes around a path do not count.
func New(o Options) http.Handler {
	s := &server{
		engine:    o.Engine,
		mapping:   o.Mapping,
		access:    o.Access,
		redisAway: o.RedisAway,
		logger:    o.Logger,
		endpoints: map[string]endpoint{
			"rule/browse":          {answer: (*call).browse},
			"rule/browse_complete": {answer: (*call).browseComplete},
			"rule/take":            {answer: (*call).take, writes: true},
			"rule/update":          {answer: (*call).update, writes: true},
			"rule/refund":          {answer: (*call).refund, writes: true},
			"rule/feedback":        {answer: (*call).feedback, writes: true},
			"rule/value":           {answer: (*call).value},
			"multi/browse":         {answer: (*call).multiBrowse},
			"monitor/alive":        {answer: (*call).alive},
			"admin/allrules":       {answer: (*call).allRules},
		},
	}
	if s.access != Full && s.access != Read {
		s.access = Off
	}
	if o.Token != "" {
		digest := sha256.Sum256([]byte(o.Token))
		s.token = &digest
	}
	if s.redisAway == nil {
		s.redisAway = func() bool { return false }
	}
	if s.logger == nil {
		s.logger = slog.Default()
	}
	s.calls.New = func() any { return new(call) }
	return s
}

// ServeHTTP answers one call.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := s.calls.Get().(*call)
	c.server, c.w, c.http, c.rules = s, w, r, s.engine.Rules()
	defer s.end(c)
	if e, ok := c.endpoint(); ok {
		e.answer(c)
	}
}

// endpoint finds what is asked for, if it is there, allowed and readable; else
// it has said what is not.
func (c *call) endpoint() (endpoint, bool) {
	e, known := c.server.endpoints[strings.Trim(c.http.URL.Path, "/")]
	switch {
	case !c.server.admits(c.http):
		c.fault(http.StatusForbidden, "the call needs the token of koala_token: Authorization: Bearer TOKEN")
	case !known:
		c.server.tellUnknown(c.http)
		c.fault(http.StatusNotFound, "not found")
	case !c.server.opens(e.writes):
		c.forbid()
	case c.http.Method != http.MethodGet && c.http.Method != http.MethodHead && c.http.Method != http.MethodPost:
		c.w.Header().Set("Allow", "GET, HEAD, POST")
		c.fault(http.StatusMethodNotAllowed, "want GET or POST")
	default:
		return e, c.read()
	}
	return e, false
}

// tellUnknown logs a call of a path that is none of ours: most are a gateway's,
// which then fails as it is set to, open perhaps, and says nothing.
func (s *server) tellUnknown(r *http.Request) {
	if unsaid, due := s.unknown.Due(); due {
		path := r.URL.Path
		s.logger.Warn("refused a call of a path that does not exist", "path", path[:min(len(path), 100)], "peer", r.RemoteAddr,
			"remedy", "gateways ask at /v1/auth-request, /v1/forward-auth, /v1/accel or /v1/ext-authz/…, Envoy over HTTP by path_prefix: /v1/ext-authz", "unsaid", unsaid)
	}
}

// admits tells whether a call brings the token, if one is asked for.
func (s *server) admits(r *http.Request) bool {
	if s.token == nil {
		return true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	digest := sha256.Sum256([]byte(token))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(digest[:], s.token[:]) == 1
}

// opens tells whether the setting lets a call pass that writes, or that does
// not.
func (s *server) opens(writes bool) bool {
	return s.access == Full || s.access == Read && !writes
}

// end keeps c for another call, without what it holds of this one, and without
// its memory if the call was uncommonly large. A panic ends here too, and its call
// is not used again.
func (s *server) end(c *call) {
	const common = 64 // arguments
	if v := recover(); v != nil {
		s.logger.Error("a call panicked", "door", doorname.Koala, "panic", v, "stack", string(debug.Stack()))
		if !c.begun {
			c.fault(http.StatusServiceUnavailable, "internal error; the service's log has the details")
		}
		return
	}
	c.params.Reset()
	if cap(c.request.Args) > common {
		c.request.Args = nil
	}
	clear(c.request.Args[:cap(c.request.Args)]) // a job of /multi/browse has fewer than the call itself
	*c = call{params: c.params, request: mapping.Request{Args: c.request.Args[:0]}, room: c.room, body: c.body[:0]}
	s.calls.Put(c)
}
