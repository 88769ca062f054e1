//go:build !race

package allocations

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/tokens"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/nginx"
	"github.com/koalagate/koalagate/rules"
)

// perUser limits a user, whose source is %s.
const perUser = `%s
rule : [count] [uid=+] [time=3600; count=1000000000] [result=2; return=1]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// variant is a rule file that begins with source, whose decisions are counted and measured.
type variant struct{ name, source string }

// users are the ways in which a request says who its user is.
var users = []variant{
	{"a user by header", "[params]\nuid : header X-User-Id\n[rules]"},
	{"a user by a remembered token", "[tokens]\nmain : keys.json; issuer=i; audience=api\n[params]\nuid : jwt main sub\n[rules]\nrule : [direct] [jwt.main=invalid,expired] [] [result=2; return=2]"},
}

// marks are a rule that nothing exceeds, and one that marks every call but the first.
var marks = []variant{
	{"no mark", "[params]\nuid : header X-User-Id\n[rules]\nrule : [count] [uid=+] [time=60; count=1000000000] [result=2; return=2]"},
	{"a mark", "[params]\nuid : header X-User-Id\n[rules]\nrule : [count] [uid=+] [time=60; count=1] [result=2; return=2; mark=near]"},
}

// newToken returns the text of a JWK set and a token of it.
func newToken(t testing.TB) (keys []byte, token string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: private, KeyID: "1"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(fmt.Appendf(nil, `{"iss":"i","aud":"api","sub":"1000000001","exp":%d}`, time.Now().Add(24*time.Hour).Unix()))
	if err != nil {
		t.Fatal(err)
	}
	if token, err = signed.CompactSerialize(); err != nil {
		t.Fatal(err)
	}
	key, err := jose.JSONWebKey{Key: public, KeyID: "1"}.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Appendf(nil, `{"keys":[%s]}`, key), token
}

// callOf returns a call of the door of nginx in which the request's user comes from source.
func callOf(t testing.TB, source string, keys []byte, token string) func() bool {
	t.Helper()
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: fmt.Appendf(nil, perUser, source)}}, rules.Options{
		OpenKeys:  func(_, _ string) ([]byte, error) { return keys, nil },
		OpenToken: tokens.NewRing(tokens.Options{Remembered: 100}).Open,
	})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	store := memory.New(memory.Options{})
	t.Cleanup(store.Close)
	door := nginx.New(nginx.Options{Engine: engine.New(set, wiring.CountIn(store)), Presentation: presentation, Logger: quiet})
	return web(door, "/v1/auth-request", map[string]string{
		"X-Original-Method": "GET", "X-Original-URI": "/", "X-Real-IP": "198.51.100.7", "X-User-Id": "1000000001", "Authorization": "Bearer " + token,
	})
}

// maxAdded is the number of allocations that a remembered token, or a mark, may add to a decision.
const maxAdded = 2

// compareAdded adds the allocations of decisions with and without a remembered token or a mark to
// text, and compares them with the recorded ones.
func compareAdded(t *testing.T, text *strings.Builder, want map[string]string) {
	t.Helper()
	keys, token := newToken(t)
	for _, pair := range [][]variant{users, marks} {
		var counts []float64
		for _, v := range pair {
			name := "in process, nginx, " + v.name
			got := measure(t, name, callOf(t, v.source, keys, token), true)
			fmt.Fprintf(text, "%s: %.0f\n", name, got)
			compare(t, name, got, want)
			counts = append(counts, got)
		}
		if counts[1] > counts[0]+maxAdded {
			t.Errorf("%.0f allocations with %s, and %.0f with %s; want at most %d more, whatever is recorded", counts[1], pair[1].name, counts[0], pair[0].name, maxAdded)
		}
	}
}

// BenchmarkUsers measures a decision in process about the user of a header, and of a token that is
// remembered, and the SHA-256 of that token.
func BenchmarkUsers(b *testing.B) {
	keys, token := newToken(b)
	runVariants(b, users, keys, token)
	b.Run("a digest of the token", func(b *testing.B) {
		for b.Loop() {
			_ = sha256.Sum256([]byte(token))
		}
	})
}

// BenchmarkMarks measures a decision in process that a rule marks, and one that none marks.
func BenchmarkMarks(b *testing.B) {
	keys, token := newToken(b)
	runVariants(b, marks, keys, token)
}

func runVariants(b *testing.B, list []variant, keys []byte, token string) {
	b.Helper()
	for _, v := range list {
		b.Run(v.name, func(b *testing.B) {
			call := callOf(b, v.source, keys, token)
			b.ReportAllocs()
			for b.Loop() {
				if !call() {
					b.Fatal("refused")
				}
			}
		})
	}
}
