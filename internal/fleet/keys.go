package fleet

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
)

// PublicKey verifies the signatures of versions.
type PublicKey = ed25519.PublicKey

// PrivateKey signs versions.
type PrivateKey = ed25519.PrivateKey

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
