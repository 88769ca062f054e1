package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// hosts answers only calls by a name that is ours. A page in an operator's
// browser could otherwise have its own name point here, and read along; a
// plain address cannot be made to do so.
func hosts(next http.Handler, names []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isOurs(r.Host, names) {
			http.Error(w, "this name is not one of admin_hosts: add it to that option of the service, or call it by its address", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func isOurs(host string, names []string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host // there is no port
	}
	name = strings.TrimSuffix(strings.ToLower(strings.Trim(name, "[]")), ".")
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return name == "" || name == "localhost" || slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}

// authorized asks for the token, and shows nothing to other machines where
// there is none.
func authorized(next http.Handler, token string, exposed bool) http.Handler {
	wanted := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case token == "" && exposed:
			http.Error(w, "beyond loopback this needs the service's option admin_token, and the token as a bearer token", http.StatusForbidden)
		case token != "" && !hasToken(r, wanted):
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "this needs the admin_token as a bearer token", http.StatusUnauthorized)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// hasToken compares hashes, in constant time: neither the token's content nor
// its length can be measured.
func hasToken(r *http.Request, wanted [sha256.Size]byte) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(got[:], wanted[:]) == 1
}
