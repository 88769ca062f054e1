package admin

import (
	"net/http"

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

// sameOrigin rejects requests by which a web page of another origin could change something.
func sameOrigin(next http.Handler, refused func(reason string)) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		refused("web_page")
		http.Error(w, "a web page of another origin sent the request; such pages may not change anything here", http.StatusForbidden)
	}))
	return protection.Handler(next)
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
