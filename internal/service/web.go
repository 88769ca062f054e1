package service

import (
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/koalagate/koalagate/internal/config"
	"github.com/koalagate/koalagate/internal/dropin"
	"github.com/koalagate/koalagate/internal/metrics"
	"github.com/koalagate/koalagate/koala"
	"github.com/koalagate/koalagate/nginx"
)

// profileTimeout is the write timeout of the admin address, whose profiles take 30 s by
// default.
const profileTimeout = 2 * time.Minute

// newHTTPServer returns a server that limits for how long callers may keep
// connections open.
func newHTTPServer(h http.Handler, c *config.Config, write time.Duration, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: c.HTTPHeaderTimeout,
		ReadTimeout:       c.HTTPReceiveTimeout,
		WriteTimeout:      write,
		IdleTimeout:       c.HTTPIdleTimeout,
		MaxHeaderBytes:    c.HTTPMaxHeader,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
}

// gatewayPaths is the prefix of the paths of gateways. All other paths belong to
// Koala's API.
const gatewayPaths = "/v1/"

// httpDoors returns the handler of the HTTP address. It does not use http.ServeMux,
// which would redirect some of the paths that gateways send.
func (s *Service) httpDoors() http.Handler {
	c, e := s.config, s.app.Engine()
	if s.imported != nil {
		pages := &s.imported.Pages
		pages.TrustedProxies = prefixes(c.TrustedProxies)
		pages.Calls = dropin.Guard{
			Hosts: c.KoalaHosts, Setting: "KOALAGATE_KOALA_HOSTS", Logger: s.logger,
			Refused: refusedPeers(s.metrics, metrics.HTTP, "untrusted", "host", "web_page", "content_type"),
		}
		if len(c.Rules) == 0 {
			return pages.HTTP(http.NotFoundHandler())
		}
	}
	refused := refusedPeers(s.metrics, metrics.HTTP, "untrusted", "unknown_path", "token", "host", "web_page")
	gateways := nginx.New(nginx.Options{
		Engine: e, Mapping: s.mappingOptions(), Presentation: presentation(c),
		TrustedProxies: prefixes(c.TrustedProxies), AccelTargets: c.AccelTargets, ExtAuthzWait: c.ExtAuthzWait,
		Watch: s.watch, Refused: refused, Logger: s.logger,
	})
	api := koala.New(koala.Options{
		Engine: e, Mapping: s.mappingOptions(), Access: koalaAccess(c.KoalaAPI, isLocal(s.listeners.http)),
		Token: c.KoalaToken.Reveal(), Hosts: c.KoalaHosts, RedisAway: s.app.Degraded,
		Watch: s.watch, Refused: refused, Logger: s.logger,
	})
	doors := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, gatewayPaths) {
			gateways.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
	if s.imported != nil {
		return s.imported.Pages.HTTP(doors)
	}
	return doors
}

// closeWhileDraining makes callers close their connections once isDraining is set. If this end
// closed them, a request could be on its way.
func closeWhileDraining(next http.Handler, isDraining *atomic.Bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isDraining.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
