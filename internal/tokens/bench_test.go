package tokens_test

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/koalagate/koalagate/internal/tokens"
	"github.com/koalagate/koalagate/rules"
)

// BenchmarkVerify compares the first verification of a token with what the library itself does
// for it, and measures a token that is remembered and its SHA-256.
func BenchmarkVerify(b *testing.B) {
	for _, c := range []struct{ algorithm, key string }{{"RS256", "rsa"}, {"ES256", "p256"}, {"EdDSA", "ed"}} {
		text := signed(fmt.Sprintf(`{"alg":%q,"kid":%q,"typ":"JWT"}`, c.algorithm, c.key), claims(`{"plan":"gold","scope":"read write","name":"Ann Example"}`), c.algorithm, private[c.key])
		b.Run("library/"+c.algorithm, func(b *testing.B) {
			parser := jwt.NewParser(jwt.WithStrictDecoding(), jwt.WithValidMethods([]string{c.algorithm}), jwt.WithIssuer("https://id.example.com/"), jwt.WithExpirationRequired(),
				jwt.WithTimeFunc(func() time.Time { return now }), jwt.WithAudience("api", "web"))
			keys := map[any]any{c.key: private[c.key].Public()}
			find := func(t *jwt.Token) (any, error) { return keys[t.Header["kid"]], nil }
			b.ReportAllocs()
			for b.Loop() {
				if token, err := parser.ParseWithClaims(text, jwt.MapClaims{}, find); err != nil || !token.Valid {
					b.Fatal(err)
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
