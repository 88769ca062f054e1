package tokens

import "crypto/sha256"

// Count returns the number of tokens that a verifier remembers.
func Count(v *Verifier) int { return len(v.remembered.young) + len(v.remembered.old) }

// Remembers reports whether a verifier remembers a token.
func Remembers(v *Verifier, token string) bool {
	sum := sha256.Sum256([]byte(token))
	return v.remembered.young[sum] != nil || v.remembered.old[sum] != nil
}
