package admin

import (
	"net/http"

	"github.com/koalagate/koalagate/internal/access"
	"github.com/koalagate/koalagate/internal/bearer"
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

// sameOrigin rejects requests by which a web page of another origin could change something.
func sameOrigin(next http.Handler, refused func(reason string)) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		refused("web_page")
		http.Error(w, "a web page of another origin sent the request; such pages may not change anything here", http.StatusForbidden)
	}))
	return protection.Handler(next)
}

// authorized requires the token for reading, and for changes that for changes if one is
// configured. If there is no token, it rejects all requests to an exposed address.
func authorized(next http.Handler, tokens *access.Tokens, refused func(reason string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		level, wait := tokens.Of(r)
		isRead := r.Method == http.MethodGet || r.Method == http.MethodHead
		switch {
		case level == access.Change, level == access.Read && (isRead || !tokens.Configured()):
			next.ServeHTTP(w, r)
		case wait > 0:
			refused("token")
			http.Error(w, bearer.Refuse(w.Header(), wait), http.StatusTooManyRequests)
		case !tokens.Configured():
			refused("token")
			http.Error(w, "not available beyond loopback without a token; set admin_token, and send it as a bearer token", http.StatusForbidden)
		default:
			refused("token")
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "missing or wrong token; send admin_token as a bearer token", http.StatusUnauthorized)
		}
	})
}
