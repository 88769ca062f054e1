package main

import (
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/config"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/koala"
	"github.com/koalagate/koalagate/nginx"
)

// The bounds that nobody has had a reason to set: answers and the forms of
// Koala's API are small.
const (
	readTimeout  = 10 * time.Second
	writeTimeout = 10 * time.Second
	// profileTimeout leaves room for the profiles of the admin address, which
	// take 30 s unless told otherwise.
	profileTimeout = 2 * time.Minute
)

// newHTTPServer returns a server with bounds on what a caller may hold open.
func newHTTPServer(h http.Handler, c *config.Config, write time.Duration, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: c.HTTPHeaderTimeout,
		ReadTimeout:       max(readTimeout, c.HTTPHeaderTimeout),
		WriteTimeout:      write,
		IdleTimeout:       c.HTTPIdleTimeout,
		MaxHeaderBytes:    c.HTTPMaxHeader,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
}

// gatewayPaths begin the paths of gateways; all others are Koala's.
const gatewayPaths = "/v1/"

// httpDoors is everything that the HTTP address serves. There is no
// http.ServeMux before the doors: it would redirect the paths that gateways
// send.
func httpDoors(c *config.Config, e *engine.Engine, store *counters, isLocal bool, logger *slog.Logger) http.Handler {
	gateways := nginx.New(nginx.Options{
		Engine: e, Mapping: mappingOptions(c), Presentation: presentation(c),
		TrustedProxies: prefixes(c.TrustedProxies), AccelTargets: c.AccelTargets, Logger: logger,
	})
	api := koala.New(koala.Options{
		Engine: e, Mapping: mappingOptions(c), Access: koalaAccess(c.KoalaAPI, isLocal),
		Token: c.KoalaToken.Reveal(), RedisAway: store.degraded, Logger: logger,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, gatewayPaths) {
			gateways.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}

// closing has callers close their connections once isDraining: a connection
// that is closed from this end could have a request on its way.
func closing(next http.Handler, isDraining *atomic.Bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isDraining.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// koalaAccess is how much of Koala's API a listener serves: whoever can write
// to it can block anybody, so all of it only where this machine alone calls.
func koalaAccess(setting string, isLocal bool) koala.Access {
	switch {
	case setting != "auto":
		return koala.Access(setting)
	case isLocal:
		return koala.Full
	}
	return koala.Read
}

func mappingOptions(c *config.Config) mapping.Options {
	return mapping.Options{TrustedHops: c.TrustedHops, KeepMalformed: c.MalformedPaths == "keep"}
}

func presentation(c *config.Config) engine.Presentation {
	return engine.Presentation{Quota: engine.QuotaHeaders(c.Headers), HideDecision: c.HideDecisionHeaders}
}

// prefixes reads addresses and blocks, which the configuration has checked. The
// list is never nil: an empty one trusts nobody.
func prefixes(list []string) []netip.Prefix {
	made := make([]netip.Prefix, 0, len(list))
	for _, text := range list {
		if p, err := netip.ParsePrefix(text); err == nil {
			made = append(made, p.Masked())
		} else if a, err := netip.ParseAddr(text); err == nil {
			made = append(made, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return made
}
