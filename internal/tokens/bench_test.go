package tokens_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/koalagate/koalagate/internal/tokens"
	"github.com/koalagate/koalagate/rules"
)

// BenchmarkVerify compares the first verification of a token with what the library itself does
// for it, and measures a token that is remembered and its SHA-256.
func BenchmarkVerify(b *testing.B) {
	for _, c := range []struct{ algorithm, key string }{{"RS256", "rsa"}, {"ES256", "p256"}, {"EdDSA", "ed"}} {
		text := signed(fmt.Sprintf(`{"alg":%q,"kid":%q,"typ":"JWT"}`, c.algorithm, c.key), claims(`{"plan":"gold","scope":"read write","name":"Ann Example"}`), c.algorithm, private[c.key])
		b.Run("library/"+c.algorithm, func(b *testing.B) {
			algorithms := []jose.SignatureAlgorithm{jose.SignatureAlgorithm(c.algorithm)}
			set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: private[c.key].Public(), KeyID: c.key}}}
			b.ReportAllocs()
			for b.Loop() {
				token, err := jose.ParseSignedCompact(text, algorithms)
				if err != nil {
					b.Fatal(err)
				}
				payload, err := token.Verify(set.Key(token.Signatures[0].Header.KeyID)[0])
				if err != nil {
					b.Fatal(err)
				}
				var known struct {
					Issuer   string  `json:"iss"`
					Audience string  `json:"aud"`
					Subject  string  `json:"sub"`
					Expires  float64 `json:"exp"`
				}
				if err := json.Unmarshal(payload, &known); err != nil || known.Issuer == "" || known.Audience == "" || known.Expires < float64(now.Unix()) {
					b.Fatal(err, known)
				}
			}
		})
		for _, way := range []struct {
			name       string
			remembered int
		}{{"first", 0}, {"remembered", 100}} {
			b.Run(way.name+"/"+c.algorithm, func(b *testing.B) {
				v := tokens.New(terms(), all, tokens.Options{Now: func() time.Time { return now }, Remembered: way.remembered, Turns: make(tokens.Turns, 1)})
				b.ReportAllocs()
				for b.Loop() {
					if outcome, _ := v.Verify(text); outcome != rules.JWTValid {
						b.Fatal(outcome)
					}
				}
			})
		}
		b.Run("digest/"+c.algorithm, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = sha256.Sum256([]byte(text))
			}
		})
	}
}
