// Package admin serves what operators and orchestrators ask: health,
// readiness, metrics, the version and profiles.
package admin

import (
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/koalagate/koalagate/engine"
)

// Options are what the admin pages show, and whom they are shown to.
type Options struct {
	// Status is asked at every look at /readyz.
	Status func() Status
	// Metrics serves /metrics.
	Metrics http.Handler
	// Modes are shown and changed at /modes.
	Modes *engine.Modes
	// Version is what /version says.
	Version Version
	// Hosts are the names, beside localhost and plain addresses, by which the
	// pages may be called.
	Hosts []string
	// Token must be brought as a bearer token for everything but health and
	// readiness; "" for none.
	Token string
	// Exposed tells that others than this machine reach the pages: without a
	// Token, only health and readiness are then served.
	Exposed bool
}

// Status is whether the service is ready, and by what rules it decides.
type Status struct {
	Ready      bool      `json:"ready"`
	Reason     string    `json:"reason,omitempty"` // why it is not ready
	Generation uint64    `json:"generation"`
	Hash       string    `json:"hash"`
	Rules      int       `json:"rules"`
	LoadedAt   time.Time `json:"loaded_at"`
	LastError  string    `json:"last_error"`
	// RestoredFrom tells that the rules are those of state_dir, and when they had
	// come into force; nil if they are those of the rule files.
	RestoredFrom *time.Time `json:"restored_from,omitempty"`
	Store        string     `json:"store"`                 // memory, redis, or degraded: memory in place of Redis
	StoreError   string     `json:"store_error,omitempty"` // what Redis is away with, and what to do about it
}

// Version says what program runs.
type Version struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
}

// New returns the handler of the admin address.
func New(o Options) http.Handler {
	guarded := http.NewServeMux()
	guarded.Handle("GET /metrics", o.Metrics)
	guarded.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, o.Version) })
	guarded.HandleFunc("GET /modes", modes{o.Modes}.get)
	guarded.HandleFunc("POST /modes", modes{o.Modes}.post)
	guarded.HandleFunc("GET /debug/pprof/", pprof.Index)
	guarded.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	guarded.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	guarded.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	guarded.HandleFunc("GET /debug/pprof/trace", pprof.Trace)

	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", healthz)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { readyz(w, o.Status()) })
	guard := authorized(guarded, o.Token, o.Exposed)
	mux.Handle("GET /", guard)
	mux.Handle("POST /modes", guard)
	// A page in an operator's browser may lead to ours, and change nothing.
	return hosts(http.NewCrossOriginProtection().Handler(mux), o.Hosts)
}

// healthz says that the process lives, whatever else is wrong: to restart it
// would not bring Redis back.
func healthz(w http.ResponseWriter, _ *http.Request) {
	harmless(w.Header())
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	// The error is that of a caller who went away.
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
	harmless(w.Header())
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	// The error is that of a caller who went away.
	_ = e.Encode(body)
}

// harmless keeps answers out of caches, and browsers from guessing at them.
func harmless(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}
