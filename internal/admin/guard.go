package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

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

// authorized requires the token. If there is no token, it rejects all requests to
// an exposed address.
func authorized(next http.Handler, token string, exposed bool, refused func(reason string)) http.Handler {
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case token == "" && exposed:
			refused("token")
			http.Error(w, "not available beyond loopback without a token; set admin_token, and send it as a bearer token", http.StatusForbidden)
		case token != "" && !hasToken(r, want):
			refused("token")
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "missing or wrong token; send admin_token as a bearer token", http.StatusUnauthorized)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// hasToken compares hashes in constant time, so that neither the content nor the
// length of the token can be measured.
func hasToken(r *http.Request, want [sha256.Size]byte) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(got[:], want[:]) == 1
}
