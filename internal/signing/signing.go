// Package signing writes the signatures of publish_public_key as text, and checks them.
package signing

import (
	"crypto/ed25519"
	"encoding/base64"
)

// Sign returns the signature of a text in base64.
func Sign(key ed25519.PrivateKey, text []byte) string {
	return base64.StdEncoding.EncodeToString(ed25519.Sign(key, text))
}

// IsValid reports whether a signature in base64 is one of a text. The decoder skips line ends and
// unused bits; of the spellings of one signature only that of Sign is valid.
func IsValid(key ed25519.PublicKey, text []byte, signature string) bool {
	raw, err := base64.StdEncoding.DecodeString(signature)
	return err == nil && base64.StdEncoding.EncodeToString(raw) == signature && ed25519.Verify(key, text, raw)
}
