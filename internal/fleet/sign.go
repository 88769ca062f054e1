package fleet

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

// PublicKey verifies the signatures of versions.
type PublicKey = ed25519.PublicKey

// PrivateKey signs versions.
type PrivateKey = ed25519.PrivateKey

// signed precedes the text that a signature covers, so that a signature for another
// purpose is not one of a version.
const signed = "koalagate version\n"

// ReadPrivateKey reads an Ed25519 key from a PEM file, as `openssl genpkey -algorithm
// ed25519` writes it.
func ReadPrivateKey(path string) (PrivateKey, error) {
	block, err := readPEM(path)
	if err != nil {
		return nil, err
	}
	key, err := x509.ParsePKCS8PrivateKey(block)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if private, ok := key.(ed25519.PrivateKey); ok {
		return private, nil
	}
	return nil, fmt.Errorf("%s: a key of another kind; want Ed25519: openssl genpkey -algorithm ed25519", path)
}

// ReadPublicKey reads an Ed25519 key from a PEM file, as `openssl pkey -pubout` writes
// it.
func ReadPublicKey(path string) (PublicKey, error) {
	block, err := readPEM(path)
	if err != nil {
		return nil, err
	}
	key, err := x509.ParsePKIXPublicKey(block)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if public, ok := key.(ed25519.PublicKey); ok {
		return public, nil
	}
	return nil, fmt.Errorf("%s: a key of another kind; want Ed25519: openssl pkey -in KEY -pubout", path)
}

func readPEM(path string) ([]byte, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s: no key in PEM", path)
	}
	return block.Bytes, nil
}

// Sign returns the signature of a manifest's text, in base64.
func Sign(key PrivateKey, manifest []byte) string {
	return base64.StdEncoding.EncodeToString(ed25519.Sign(key, append([]byte(signed), manifest...)))
}

// unsigned is the signature of a version without one.
const unsigned = "-"

// verify checks the signature of a manifest. Without a key, every signature is valid.
func verify(key PublicKey, manifest []byte, signature string) error {
	switch {
	case key == nil:
		return nil
	case signature == unsigned || signature == "":
		return errors.New("it is not signed, and publish_public_key requires a signature: koalagate publish --sign-key FILE")
	}
	raw, err := base64.StdEncoding.DecodeString(signature)
	if err != nil || !ed25519.Verify(key, append([]byte(signed), manifest...), raw) {
		return errors.New("its signature is not valid for publish_public_key")
	}
	return nil
}

// record returns the value of a version in Redis: the signature and the manifest.
func record(manifest []byte, signature string) []byte {
	if signature == "" {
		signature = unsigned
	}
	return append([]byte(signature+"\n"), manifest...)
}

// peekNumber returns the number in an unchecked record.
func peekNumber(value []byte) (uint64, error) {
	_, text, _ := bytes.Cut(value, []byte("\n"))
	var m struct {
		Number uint64 `json:"number"`
	}
	err := json.Unmarshal(text, &m)
	return m.Number, err
}

// openRecord checks the value of a version and returns its manifest.
func (r *Records) openRecord(number uint64, value []byte) (*Manifest, error) {
	if len(value) > maxManifest {
		return nil, fmt.Errorf("its manifest is larger than %d bytes", maxManifest)
	}
	signature, text, found := bytes.Cut(value, []byte("\n"))
	if !found {
		return nil, errors.New("it has no manifest (cut or damaged)")
	}
	if err := verify(r.o.PublicKey, text, string(signature)); err != nil {
		return nil, err
	}
	m, err := ParseManifest(text, r.o.MaxVersionBytes)
	switch {
	case err != nil:
		return nil, err
	case m.Number != number:
		return nil, fmt.Errorf("its manifest belongs to version %d", m.Number)
	case m.Prefix != r.o.Prefix:
		return nil, fmt.Errorf("its manifest is for the redis_prefix %q; want %q", m.Prefix, r.o.Prefix)
	}
	return m, nil
}
