package tokens

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// MaxKeys is the number of keys that a set may have.
	MaxKeys = 1000
	// MaxKeysText is the size of a text of keys, in bytes.
	MaxKeysText = 1 << 20
	// leastRSA and mostRSA bound the length of an RSA key: shorter ones can be broken, and
	// longer ones make each signature check as expensive as an attack.
	leastRSA, mostRSA = 2048, 8192
)

// Keys are the keys of one text. They are immutable and safe for concurrent use.
type Keys struct {
	list    []key
	Skipped []error // why keys of the text are not in use: at most maxReasons, then the number of the others
	secrets bool
	more    int // keys beyond those in Skipped
}

// key is a key with the algorithms that it fits.
type key struct {
	jose.JSONWebKey
	algorithms []string
}

// Keys returns the keys themselves, which do not change: they are a Source, and nil is one
// without keys.
func (k *Keys) Keys() *Keys { return k }

// Want does nothing: no other keys are known.
func (k *Keys) Want(string) {}

// Len returns the number of keys in use.
func (k *Keys) Len() int { return len(k.list) }

// ParseKeys reads a JWK set (RFC 7517), or public keys and certificates in PEM. Keys that are
// not for the verification of signatures, or that are too weak, are skipped, and so are
// symmetric keys unless secrets is set. It is an error if no key is left.
func ParseKeys(text []byte, secrets bool) (*Keys, error) {
	if len(text) > MaxKeysText {
		return nil, fmt.Errorf("the keys have %d bytes; want at most %d", len(text), MaxKeysText)
	}
	k := &Keys{secrets: secrets}
	read := k.readSet
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) && bytes.Contains(text, []byte("-----BEGIN ")) {
		read = k.readPEM
	}
	if err := read(text); err != nil {
		return nil, err
	}
	if k.more > 0 {
		k.Skipped = append(k.Skipped, fmt.Errorf("%d more have mistakes, too", k.more))
	}
	switch {
	case len(k.list) > 0:
		return k, nil
	case len(k.Skipped) > 0:
		return nil, fmt.Errorf("no key for the verification of signatures: %s", Reasons(k.Skipped))
	}
	return nil, errors.New("no key for the verification of signatures")
}

// maxReasons is the number of keys that are not in use whose reasons are told.
const maxReasons = 10

// skip notes why the key or block of this number is not in use. What a reason quotes is the text
// of somebody else.
func (k *Keys) skip(what string, number int, reason error) {
	if len(k.Skipped) == maxReasons {
		k.more++
		return
	}
	k.Skipped = append(k.Skipped, fmt.Errorf("%s %d: %w", what, number, reason))
}

// Reasons returns reasons in one line.
func Reasons(list []error) string {
	texts := make([]string, len(list))
	for i, reason := range list {
		texts[i] = reason.Error()
	}
	return strings.Join(texts, "; ")
}

// foreign returns an error of a library about a key, whose text may quote any part of the key.
func foreign(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%.100q", err.Error())
}

// readSet reads a JWK set.
func (k *Keys) readSet(text []byte) error {
	isSet := false
	err := members(text, func(name string, value jsontext.Value) error {
		if name != "keys" {
			return nil
		}
		isSet = true
		return k.readList(value)
	})
	switch {
	case errors.Is(err, errForm):
		return errors.New("the JWK set is invalid: it is not one JSON object in UTF-8 without repeated members")
	case err != nil:
		return fmt.Errorf("the JWK set is invalid: %w", err)
	case !isSet:
		return errors.New(`want a JWK set, {"keys": [...]}, or public keys in PEM`)
	}
	return nil
}

func (k *Keys) readList(list jsontext.Value) error {
	n := 0
	err := values(list, func(value jsontext.Value) error {
		if n++; n > MaxKeys {
			return fmt.Errorf("it has more than %d keys", MaxKeys)
		}
		if err := k.readKey(value); err != nil {
			k.skip("key", n, err)
		}
		return nil
	})
	if errors.Is(err, errForm) {
		return errors.New("its keys are not a list")
	}
	return err
}

// readKey reads one key of a JWK set.
func (k *Keys) readKey(value jsontext.Value) error {
	verifies, hasOps := false, false
	if err := members(value, func(name string, value jsontext.Value) error {
		if name == "key_ops" {
			hasOps = true
			return elements(value, func(s string) { verifies = verifies || s == "verify" })
		}
		return nil
	}); err != nil {
		return errors.New("it is no object, repeats a member, or its key_ops are no list")
	}
	var public jose.JSONWebKey
	if err := public.UnmarshalJSON(value); err != nil {
		return foreign(err)
	}
	if hasOps && !verifies || public.Use != "" && public.Use != "sig" {
		return errors.New("it is not for the verification of signatures")
	}
	return k.add(public)
}

// symmetric are the algorithms with a secret, and the least lengths of their keys in bytes.
var symmetric = []struct {
	name  string
	least int
}{{"HS256", 32}, {"HS384", 48}, {"HS512", 64}}

// add adds a key, unless it cannot verify signatures.
func (k *Keys) add(public jose.JSONWebKey) error {
	algorithms, err := k.fitting(public)
	if err == nil {
		k.list = append(k.list, key{public, algorithms})
	}
	return err
}

// readPEM reads public keys and certificates.
func (k *Keys) readPEM(text []byte) error {
	for n := 1; ; n++ {
		var block *pem.Block
		block, text = pem.Decode(text)
		if block == nil {
			return nil
		}
		if n > MaxKeys {
			return fmt.Errorf("there are more than %d keys", MaxKeys)
		}
		public, err := publicKey(block)
		if err == nil {
			err = k.add(jose.JSONWebKey{Key: public})
		}
		if err != nil {
			k.skip("block", n, err)
		}
	}
}

func publicKey(block *pem.Block) (any, error) {
	switch block.Type {
	case "PUBLIC KEY":
		public, err := x509.ParsePKIXPublicKey(block.Bytes)
		return public, foreign(err)
	case "RSA PUBLIC KEY":
		public, err := x509.ParsePKCS1PublicKey(block.Bytes)
		return public, foreign(err)
	case "CERTIFICATE":
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, foreign(err)
		}
		return certificate.PublicKey, nil
	}
	return nil, fmt.Errorf("%.100q is neither a public key nor a certificate", block.Type)
}

// fitting returns the algorithms that a key can verify.
func (k *Keys) fitting(read jose.JSONWebKey) (names []string, err error) {
	switch public := read.Key.(type) {
	case *rsa.PublicKey:
		if bits := public.N.BitLen(); bits < leastRSA || bits > mostRSA {
			return nil, fmt.Errorf("an RSA key of %d bits; want %d to %d", bits, leastRSA, mostRSA)
		}
		names = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
	case *ecdsa.PublicKey:
		switch public.Curve {
		case elliptic.P256():
			names = []string{"ES256"}
		case elliptic.P384():
			names = []string{"ES384"}
		case elliptic.P521():
			names = []string{"ES512"}
		}
	case ed25519.PublicKey:
		names = []string{"EdDSA"}
	case []byte:
		if !k.secrets {
			return nil, errors.New("a symmetric key is a secret: it belongs into a file")
		}
		for _, a := range symmetric { // RFC 7518, section 3.2
			if len(public) >= a.least {
				names = append(names, a.name)
			}
		}
		if names == nil {
			return nil, fmt.Errorf("a symmetric key of %d bytes; want at least %d", len(public), symmetric[0].least)
		}
	default:
		return nil, fmt.Errorf("%T is no public key for signatures", public)
	}
	if read.Algorithm != "" {
		if !slices.Contains(names, read.Algorithm) {
			return nil, fmt.Errorf("its algorithm %.100q does not fit its type", read.Algorithm)
		}
		names = []string{read.Algorithm}
	}
	return names, nil
}

// has reports whether a key has the ID.
func (k *Keys) has(id string) bool {
	return slices.ContainsFunc(k.list, func(key key) bool { return key.KeyID == id })
}

// candidates returns the keys that may have signed a token with this header: those with its
// ID before those without one, which stand for any; all if the header has none.
func (k *Keys) candidates(h header) (list []any) {
	fits := func(key *key, id string) bool { return key.KeyID == id && slices.Contains(key.algorithms, h.algorithm) }
	for i := range k.list {
		if key := &k.list[i]; (!h.hasID && fits(key, key.KeyID) || h.hasID && fits(key, h.id)) && len(list) < maxTried {
			list = append(list, key.Key)
		}
	}
	for i := range k.list {
		if key := &k.list[i]; h.hasID && h.id != "" && fits(key, "") && len(list) < maxTried {
			list = append(list, key.Key)
		}
	}
	return list
}

// HasSecret reports whether a text of keys has a symmetric or a private one, in use or not.
func HasSecret(text []byte) bool {
	found := bytes.Contains(text, []byte("PRIVATE KEY-----"))
	// What is no set of keys is an error of ParseKeys.
	_ = members(text, func(name string, value jsontext.Value) error {
		if name != "keys" {
			return nil
		}
		return values(value, func(key jsontext.Value) error {
			_ = members(key, func(name string, _ jsontext.Value) error {
				found = found || name == "k" || name == "d" // RFC 7518, sections 6.2.2, 6.3.2 and 6.4; RFC 8037, section 2
				return nil
			})
			return nil
		})
	})
	return found
}

// fits reports whether a key verifies an algorithm.
func (k *Keys) fits(algorithm string) bool {
	return slices.ContainsFunc(k.list, func(key key) bool { return slices.Contains(key.algorithms, algorithm) })
}
