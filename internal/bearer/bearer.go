// Package bearer reads and compares bearer tokens (RFC 6750, section 2.1).
package bearer

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// Token returns the token in the header Authorization of a request; "" if there is none.
func Token(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// Equal reports whether a token that was sent is the required one. The empty token equals
// none. Equal compares digests in constant time, so that neither the content nor the
// length of the required token can be measured.
func Equal(sent, required string) bool {
	a, b := sha256.Sum256([]byte(sent)), sha256.Sum256([]byte(required))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && required != ""
}
