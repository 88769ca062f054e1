// Package admin serves the pages for operators and orchestrators: health,
// readiness, metrics, modes, the version and profiles.
package admin

import (
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/access"
	"github.com/koalagate/koalagate/internal/pace"
	"github.com/koalagate/koalagate/internal/reload"
)

// Options configures the content of the admin pages and the access to them.
type Options struct {
	// Status is called for every request to /readyz.
	Status func() Status
	// Metrics serves /metrics.
	Metrics http.Handler
	// Modes are the modes to show and change at /modes.
	Modes *engine.Modes
	// ModesChanged is called with each change at /modes, to record it; nil for nobody.
	ModesChanged func(r *http.Request, changes map[string]engine.Mode)
	// Version is the answer of /version.
	Version Version
	// Hosts lists the accepted host names, in addition to localhost and IP
	// addresses.
	Hosts []string
	// Tokens decide who may read, and who may change modes. Health and readiness need no
	// token. Nil lets callers read, not change.
	Tokens *access.Tokens
	// API serves the paths below /api/v1/, and checks the tokens itself; nil for none.
	API http.Handler
	// Page serves the paths below /ui/, which have no data and need no token; nil for none.
	Page http.Handler
	// Refused is called for each request that is refused because of its peer, with the
	// reason: host, token or web_page. It may be nil.
	Refused func(reason string)
}

// Status describes whether the service is ready, and its active rules.
type Status struct {
	Ready      bool      `json:"ready"`
	Reason     string    `json:"reason,omitempty"` // why it is not ready
	Generation uint64    `json:"generation"`
	Hash       string    `json:"hash"`
	Rules      int       `json:"rules"`
	LoadedAt   time.Time `json:"loaded_at"`
	LastError  string    `json:"last_error"`
	// The number, author, note and time of a published version; nil for rules of files.
	*reload.Release
	// Changes report what the last reload changed; nil for the rules at startup.
	Changes *reload.Changes `json:"changes,omitempty"`
	// RestoredFrom is the time when the rules were saved, if they come from
	// state_dir; nil if they come from the rule files.
	RestoredFrom *time.Time `json:"restored_from,omitempty"`
	Store        string     `json:"store"`                 // memory, redis, or degraded: memory instead of Redis
	StoreError   string     `json:"store_error,omitempty"` // the fault of Redis and its remedy
}

// Version identifies the running program.
type Version struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Date     string `json:"date"` // of the revision, in RFC 3339; "unknown" if it is not
	Go       string `json:"go"`
}

// pagePath is the path of the page for operators.
const pagePath = "/ui/"

// New returns the handler of the admin address.
func New(o Options) http.Handler {
	if o.Refused == nil {
		o.Refused = func(string) {}
	}
	if o.Tokens == nil {
		o.Tokens = new(access.Tokens)
	}
	guarded := http.NewServeMux()
	guarded.Handle("GET /metrics", pace.NewLine().Pages(pace.PageTime, o.Metrics))
	guarded.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, o.Version) })
	doors := modes{o.Modes, o.ModesChanged}
	guarded.HandleFunc("GET /modes", doors.get)
	guarded.Handle("GET /debug/pprof/", pace.NewLine().Pages(profileTime, profiles()))

	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", healthz)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { readyz(w, o.Status()) })
	mux.Handle("GET /", admitted(access.Read, guarded.ServeHTTP, o.Tokens, o.Refused))
	if o.Page != nil {
		mux.Handle("GET "+pagePath, o.Page)
		mux.Handle("GET /{$}", http.RedirectHandler(pagePath, http.StatusFound))
	}
	mux.Handle("POST /modes", admitted(access.Change, doors.post, o.Tokens, o.Refused))
	// Other web pages in an operator's browser may link to the page, but neither read nor
	// change anything.
	return hosts(sameOrigin(routed(o.API, mux), o.Refused), o.Hosts, o.Refused)
}

// profileTime is the time for which a profile may be taken; the default is half of it.
const profileTime = time.Minute

// profiles returns the handler of profiles. It ignores gc=, by which a caller could have the
// garbage collector run all the time.
func profiles() http.Handler {
	pages := http.NewServeMux()
	pages.HandleFunc("/debug/pprof/", pprof.Index)
	pages.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	pages.HandleFunc("/debug/pprof/profile", pprof.Profile)
	pages.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	pages.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		query.Del("gc")
		plain := r.Clone(r.Context())
		plain.URL.RawQuery = query.Encode()
		pages.ServeHTTP(w, plain)
	})
}

// routed returns a handler that passes the paths below /api/v1/ to api, if there is one,
// and all others to pages. A ServeMux does not accept both patterns.
func routed(api, pages http.Handler) http.Handler {
	if api == nil {
		return pages
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/v1/") {
			api.ServeHTTP(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	})
}

// healthz reports that the process is alive, whatever else is wrong: restarting it
// would not bring Redis back.
func healthz(w http.ResponseWriter, _ *http.Request) {
	setSafeHeaders(w.Header())
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	// An error means that the caller has disconnected.
	_, _ = w.Write([]byte("ok\n"))
}

func readyz(w http.ResponseWriter, s Status) {
	code := http.StatusOK
	if !s.Ready {
		code = http.StatusServiceUnavailable
	}
	reply(w, code, s)
}

func reply(w http.ResponseWriter, code int, body any) {
	setSafeHeaders(w.Header())
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	// An error means that the caller has disconnected.
	_ = e.Encode(body)
}

// setSafeHeaders keeps answers out of caches, and prevents content sniffing.
func setSafeHeaders(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}
