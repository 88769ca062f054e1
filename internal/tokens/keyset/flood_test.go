package keyset_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/tokens"
	"github.com/koalagate/koalagate/rules"
)

// While clients send different invalid tokens as fast as they can, with wrong signatures and keys
// that nobody has, valid tokens go on being valid: remembered ones at once, and new ones when it is
// their turn. The keys are fetched at most every 10 s.
func TestInvalidTokensDelayNobody(t *testing.T) {
	t.Parallel()
	r := newRotation(t)
	r.publish(0)
	v := tokens.New(r.terms(), r.source(), tokens.Options{Now: r.clock.Now, Remembered: 1000, Turns: make(tokens.Turns, 1)})
	for _, text := range r.pool[0] {
		until(t, "a token to be remembered", func() bool { outcome, _ := v.Verify(text); return outcome == rules.JWTValid })
	}
	var flooded atomic.Int64
	signed, unknown := r.token(0, "eve"), r.token(1, "eve")
	defer startSenders(func(sender, n int) {
		text := []string{signed, unknown}[n%2]
		head, _, _ := strings.Cut(text, ".")
		payload := fmt.Sprintf(`{"iss":"https://id.example.com/","aud":"api","sub":"eve-%d-%d","exp":4000000000}`, sender, n)
		text = head + "." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + text[strings.LastIndexByte(text, '.'):]
		switch outcome, _ := v.Verify(text); outcome {
		case rules.JWTInvalid:
			flooded.Add(1)
		case rules.JWTUnavailable: // it was not its turn in time
		default:
			t.Errorf("a forged token is %v", outcome)
		}
	})()
	until(t, "the flood", func() bool { return flooded.Load() > 100 })
	before, began, unavailable := r.issuer.requests(), r.clock.Now(), 0
	for n := range 500 {
		if outcome, _, err := v.Explain(r.pool[0][n%len(r.pool[0])]); outcome != rules.JWTValid {
			t.Fatalf("a remembered token is %v: %v", outcome, err)
		}
		if n%2 == 0 {
			text, late := r.token(0, fmt.Sprintf("new-%d", n)), 0
			until(t, "the turn of a new token", func() bool {
				outcome, _, err := v.Explain(text)
				if outcome != rules.JWTValid && outcome != rules.JWTUnavailable {
					t.Fatalf("a new token is %v: %v", outcome, err)
				}
				if outcome != rules.JWTValid {
					late++
				}
				return outcome == rules.JWTValid
			})
			unavailable += late
		}
		if n%10 == 0 {
			r.clock.advance(time.Second)
			time.Sleep(5 * time.Millisecond) // longer than a fetch takes
		}
	}
	until(t, "a fetch for the unknown key", func() bool { return r.issuer.requests() > before })
	if n, most := r.issuer.requests()-before, int(r.clock.Now().Sub(began)/(10*time.Second))+1; n > most {
		t.Errorf("%d fetches in %v; want at most %d", n, r.clock.Now().Sub(began), most)
	}
	t.Logf("%d invalid tokens, %d new ones whose turn came later, %d fetches in %v", flooded.Load(), unavailable, r.issuer.requests()-before, r.clock.Now().Sub(began))
}

// A clock that jumps decides which tokens are valid, and stops neither fetches nor senders.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	r := newRotation(t)
	r.publish(0)
	v := tokens.New(r.terms(), r.source(), tokens.Options{Now: r.clock.Now, Remembered: 1000})
	known := r.pool[0][0]
	for _, c := range []struct {
		jump time.Duration
		want rules.JWTOutcome
	}{{0, rules.JWTValid}, {1000 * 24 * time.Hour, rules.JWTExpired}, {-2000 * 24 * time.Hour, rules.JWTValid}, {1000 * 24 * time.Hour, rules.JWTValid}} {
		r.clock.advance(c.jump)
		for _, text := range []string{known, r.pool[0][1]} {
			if outcome, _, err := v.Explain(text); outcome != c.want {
				t.Errorf("after a jump of %v a token is %v: %v; want %v", c.jump, outcome, err, c.want)
			}
		}
		before := r.issuer.requests()
		v.Verify(r.token(1, "ann")) // a key that is not known
		for range 25 {
			r.clock.advance(time.Second)
			time.Sleep(time.Millisecond)
		}
		until(t, "a fetch after the jump", func() bool { return r.issuer.requests() > before })
	}
}
