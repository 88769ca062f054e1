package admin

import (
	"net/http"
	"strings"

	"github.com/koalagate/koalagate/internal/access"
	"github.com/koalagate/koalagate/internal/browser"
)

// hosts rejects requests for unknown host names. Otherwise a web page in an
// operator's browser could resolve its own name to this address and read the
// answers (DNS rebinding); that is impossible with a plain IP address.
func hosts(next http.Handler, names []string, refused func(reason string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !browser.AllowsHost(r.Host, names) {
			refused("host")
			http.Error(w, "the host name is not listed in admin_hosts; add it to that setting, or use the IP address", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// sameOrigin rejects requests of web pages of other origins: changes, and also what a link or an
// image of such a page asks, except where everyone is answered.
func sameOrigin(next http.Handler, refused func(reason string)) http.Handler {
	changes := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if changes.Check(r) != nil || isSafe(r.Method) && browser.IsForeign(r) && !needsNoToken(r.URL.Path) {
			refused("web_page")
			setSafeHeaders(w.Header())
			http.Error(w, "a web page of another origin sent the request; such pages may neither read nor change anything here", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isSafe reports whether requests with a method change nothing, as http.CrossOriginProtection
// takes it.
func isSafe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// needsNoToken reports whether a path answers everyone, so that web pages may link there.
func needsNoToken(path string) bool {
	return path == "/healthz" || path == "/readyz" || path == "/" || strings.HasPrefix(path, pagePath)
}

// admitted answers the callers that have a level.
func admitted(needs access.Level, next http.HandlerFunc, tokens *access.Tokens, refused func(reason string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refusal := tokens.Admit(w.Header(), r, needs); refusal != nil {
			refused("token")
			http.Error(w, refusal.Detail, refusal.Status)
			return
		}
		next(w, r)
	})
}
