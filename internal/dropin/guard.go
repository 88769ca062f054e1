package dropin

import (
	"log/slog"
	"mime"
	"net/http"

	"github.com/koalagate/koalagate/internal/browser"
	"github.com/koalagate/koalagate/internal/loglimit"
	"github.com/koalagate/koalagate/internal/pace"
)

// Guard keeps web pages in browsers away from the pages of an address. envoyproxy/ratelimit
// has none: a page of any site can count there, give hits back, and read the limits by its
// own host name (DNS rebinding). The zero value refuses all host names of AllowsHost and
// IsPrivateName, and tells nobody.
type Guard struct {
	// Hosts are further host names, and Setting is the variable that lists them.
	Hosts   []string
	Setting string
	// Refused is called with the reason of each refusal: host, web_page, untrusted or
	// content_type. It may be nil.
	Refused func(reason string)
	// Logger receives a line about refusals, at most once per loglimit.Every. The default
	// is slog.Default.
	Logger *slog.Logger

	line loglimit.Line
}

// bars refuses a request that a web page may have sent, and reports whether it did.
func (g *Guard) bars(w http.ResponseWriter, r *http.Request) bool {
	refusal := browser.Refuse(r, g.Hosts, g.Setting)
	if refusal != nil {
		g.refuse(w, r, refusal)
	}
	return refusal != nil
}

// refuse answers a request with a refusal.
func (g *Guard) refuse(w http.ResponseWriter, r *http.Request, refusal *browser.Refusal) {
	if g.Refused != nil {
		g.Refused(refusal.Kind)
	}
	if skipped, due := g.line.Due(); due {
		logger := g.Logger
		if logger == nil {
			logger = slog.Default()
		}
		logger.Warn("a call was refused: "+refusal.Reason, "path", r.URL.Path, "host", r.Host[:min(len(r.Host), 100)], "peer", r.RemoteAddr, "suppressed", skipped)
	}
	http.Error(w, refusal.Reason, refusal.Status)
}

// Scraped returns a handler of a page that programs read, one at a time, under any host name, as
// Prometheus does. Browsers, and programs that accept deflate, read it under the names of the guard alone.
func (g *Guard) Scraped(next http.Handler) http.Handler {
	next = pace.NewLine().Pages(pace.PageTime, next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !browser.MaySendGet(r) || !g.bars(w, r) {
			next.ServeHTTP(w, r)
		}
	})
}

// mayBeJSON reports whether the body of a request may be read as JSON: with the type of JSON,
// and of programs also with the type of forms, which curl states by default, or with none.
// Browsers send the latter two for pages of any site without asking first.
func mayBeJSON(r *http.Request) bool {
	stated := r.Header.Get("Content-Type")
	kind, _, _ := mime.ParseMediaType(stated) // "" for a malformed one
	if stated == "" || kind == "application/x-www-form-urlencoded" {
		return !browser.SentPost(r)
	}
	return kind == "application/json"
}
