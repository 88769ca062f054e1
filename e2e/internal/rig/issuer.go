package rig

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Issuer signs tokens with a key of its own.
type Issuer struct {
	t      testing.TB
	signer jose.Signer
	public jose.JSONWebKey
}

// NewIssuer returns an issuer with a new P-256 key of this ID.
func NewIssuer(t testing.TB, id string) *Issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: id}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Issuer{t: t, signer: signer, public: jose.JSONWebKey{Key: key.Public(), KeyID: id, Algorithm: "ES256", Use: "sig"}}
}

// Keys returns the JWK set with the public key.
func (i *Issuer) Keys() string {
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{i.public}})
	if err != nil {
		i.t.Fatal(err)
	}
	return string(text)
}

// Token returns a token for the rules of examples/tokens.conf that is valid for an hour. Changes
// replace claims of it.
func (i *Issuer) Token(subject string, changes ...map[string]any) string {
	i.t.Helper()
	claims := map[string]any{"iss": "https://id.example.com/", "aud": "api", "sub": subject, "exp": time.Now().Add(time.Hour).Unix()}
	for _, change := range changes {
		for name, value := range change {
			claims[name] = value
		}
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		i.t.Fatal(err)
	}
	signed, err := i.signer.Sign(payload)
	if err != nil {
		i.t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		i.t.Fatal(err)
	}
	return text
}
