package exceptions

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"

	"github.com/koalagate/koalagate/internal/signing"
)

// signed precedes the text that a signature covers, so that a signature for another
// purpose, such as one of a published version, does not fit an exception.
const signed = "koalagate exception\n"

// text returns the text that a signature covers: the prefix of the keys, and everything
// in the exception but the signature and the handle.
func (x *Exception) text(prefix string) []byte {
	bare := *x
	bare.Signature, bare.Handle = "", ""
	text, _ := json.Marshal(&bare) // sorted by name; it cannot fail
	return append([]byte(signed+prefix+"\n"), text...)
}

// Sign signs an exception, as Keeper.Prepare returned it, for the instances that share a
// prefix of keys.
func (x *Exception) Sign(key ed25519.PrivateKey, prefix string) {
	x.Signature = signing.Sign(key, x.text(prefix))
}

// ErrUnsigned reports an exception without a valid signature at instances that require
// one. Nothing was changed.
var ErrUnsigned = errors.New("it has no valid signature for publish_public_key: koalagate exception add --sign-key FILE")

// verify checks the signature. Without a key, every exception is valid.
func (x *Exception) verify(key ed25519.PublicKey, prefix string) error {
	if key != nil && !signing.IsValid(key, x.text(prefix), x.Signature) {
		return ErrUnsigned
	}
	return nil
}
