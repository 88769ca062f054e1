// Package tokens verifies JSON Web Tokens in the compact form (RFC 7515, RFC 7519) against the
// terms of a line of [tokens]. Libraries read keys (go-jose) and check signatures (golang-jwt).
// This package bounds what they are given: it accepts one reading of a token only, so that no other
// program can read another one. A token costs as many signature checks as keys fit its header: one
// if its kid names one key, maxTried at most, and none if no key fits.
package tokens

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/koalagate/koalagate/rules"
)

const (
	// maxToken is the length of the longest token, in bytes.
	maxToken = 16 << 10
	// maxTried is the number of keys that a token without the ID of one is tried with.
	maxTried = 4
	// turn is how long a token waits for a processor.
	turn = 20 * time.Millisecond
)

// Options are what the verifiers of a process share.
type Options struct {
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Turns limits the verifications at the same time; nil does not.
	Turns Turns
	// Remembered is the maximum number of valid tokens that a verifier remembers; 0 means none.
	Remembered int
	// Address returns the source of the keys of a line that come by address. Nil knows none:
	// such tokens are unavailable.
	Address func(t *rules.JWT) Source
	// Verified is called with the name of a token and the outcome after each verification. It
	// must return at once. Nil calls nothing.
	Verified func(name string, outcome rules.JWTOutcome)
}

// Turns are the places of verifications that run at the same time.
type Turns chan struct{}

// take waits for a place, and reports whether there was one in time.
func (t Turns) take() bool {
	if t == nil {
		return true
	}
	select {
	case t <- struct{}{}:
		return true
	default:
	}
	timer := time.NewTimer(turn)
	defer timer.Stop()
	select {
	case t <- struct{}{}:
		return true
	case <-timer.C:
		return false
	}
}

func (t Turns) release() {
	if t != nil {
		<-t
	}
}

// Source supplies the keys of a verifier. It is safe for concurrent use.
type Source interface {
	// Keys returns the keys in force, nil without any.
	Keys() *Keys
	// Want asks for a key by its ID that is not among them. It returns at once.
	Want(id string)
}

// Verifier verifies the tokens of one line of [tokens]. It implements rules.JWTVerifier. The
// zero value is not usable; New makes one.
type Verifier struct {
	terms      *rules.JWT
	options    Options
	source     Source
	remembered memory
}

// New returns a verifier for a line of [tokens].
func New(terms *rules.JWT, from Source, o Options) *Verifier {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Verifier{terms: terms, options: o, source: from, remembered: memory{most: o.Remembered}}
}

// Verify returns how the verification of a token ended, and the values of its claims. An empty
// token stands for several, or for an empty one.
func (v *Verifier) Verify(token string) (rules.JWTOutcome, []string) {
	outcome, claims, _ := v.verify(token)
	if v.options.Verified != nil {
		v.options.Verified(v.terms.Name, outcome)
	}
	return outcome, claims
}

// Explain verifies a token as Verify does. The error says why it is not valid, in words that
// contain nothing of the token.
func (v *Verifier) Explain(token string) (rules.JWTOutcome, []string, error) { return v.verify(token) }

func (v *Verifier) verify(token string) (rules.JWTOutcome, []string, error) {
	keys := v.source.Keys()
	switch {
	case token == "":
		return rules.JWTInvalid, nil, errSeveral
	case keys == nil:
		return rules.JWTUnavailable, nil, errNoKeys
	case len(token) > maxToken:
		return rules.JWTInvalid, nil, errLength
	}
	sum := sha256.Sum256([]byte(token))
	known := v.remembered.find(sum, keys)
	isNew := known == nil
	if isNew {
		var err error
		if known, err = v.read(token, keys); err != nil {
			if errors.Is(err, errBusy) {
				return rules.JWTUnavailable, nil, err
			}
			return rules.JWTInvalid, nil, err
		}
	}
	outcome, err := known.at(v.options.Now(), v.terms.Leeway)
	if err != nil {
		return outcome, nil, err
	}
	if isNew {
		v.remembered.keep(sum, known)
	}
	return outcome, known.claims, nil
}

// read verifies a token apart from its times.
func (v *Verifier) read(token string, keys *Keys) (*verified, error) {
	h, payload, signature, err := open(token)
	switch {
	case err != nil:
		return nil, err
	case !slices.Contains(v.terms.Algorithms, h.algorithm):
		return nil, errAlgorithm
	case !isType(h.kind, v.terms.Type):
		return nil, errType
	}
	isUnknown := h.hasID && !keys.has(h.id)
	candidates := keys.candidates(h)
	if len(candidates) > 0 {
		if !v.options.Turns.take() {
			return nil, errBusy
		}
		defer v.options.Turns.release()
		if isSigned(token, signature, methods[h.algorithm], candidates) {
			known, err := readClaims(payload, v.terms)
			if err != nil {
				return nil, err
			}
			known.by = keys
			return known, nil
		}
	}
	if isUnknown {
		v.source.Want(h.id)
	}
	switch {
	case len(candidates) > 0:
		return nil, errSignature
	case isUnknown:
		return nil, errUnknownKey
	}
	return nil, errNoFit
}

// methods check signatures, by the names of their algorithms.
var methods = map[string]jwt.SigningMethod{
	"RS256": jwt.SigningMethodRS256, "RS384": jwt.SigningMethodRS384, "RS512": jwt.SigningMethodRS512,
	"PS256": jwt.SigningMethodPS256, "PS384": jwt.SigningMethodPS384, "PS512": jwt.SigningMethodPS512,
	"ES256": jwt.SigningMethodES256, "ES384": jwt.SigningMethodES384, "ES512": jwt.SigningMethodES512,
	"HS256": jwt.SigningMethodHS256, "HS384": jwt.SigningMethodHS384, "HS512": jwt.SigningMethodHS512,
	"EdDSA": jwt.SigningMethodEdDSA,
}

// isSigned reports whether one of the keys, which fit the algorithm of the header, has signed the
// token: its header and payload as they are written. What the header says about keys is not read.
func isSigned(token string, signature []byte, method jwt.SigningMethod, keys []any) bool {
	if method == nil {
		return false
	}
	written := token[:strings.LastIndexByte(token, '.')]
	return slices.ContainsFunc(keys, func(key any) bool { return method.Verify(written, signature, key) == nil })
}

// isType reports whether a header's typ is of the required type (RFC 7515, section 4.1.9).
func isType(kind, required string) bool {
	if required == "" {
		return true
	}
	kind = strings.ToLower(kind)
	return strings.TrimPrefix(kind, "application/") == required
}

// verified is a token whose signature and terms hold.
type verified struct {
	by              *Keys
	expires, begins float64 // exp and nbf, in seconds since 1970; begins is 0 without nbf
	claims          []string
}

// at returns the outcome at an instant, and why it is not valid.
func (k *verified) at(now time.Time, leeway time.Duration) (rules.JWTOutcome, error) {
	seconds, tolerance := float64(now.UnixMilli())/1000, leeway.Seconds()
	switch {
	case seconds < k.begins-tolerance:
		return rules.JWTInvalid, errEarly
	case seconds >= k.expires+tolerance:
		return rules.JWTExpired, errLate
	}
	return rules.JWTValid, nil
}

// Why a token is not valid.
var (
	errSeveral    = errors.New("the request has several tokens there, of which programs may use different ones, or an empty one")
	errNoKeys     = errors.New("no keys have been loaded yet")
	errBusy       = errors.New("no processor was free in time to verify it")
	errLength     = fmt.Errorf("it is longer than %d bytes", maxToken)
	errForm       = errors.New("it is not three parts in base64url, of which the first two are JSON objects without repeated members")
	errCritical   = errors.New("its header has crit, which no extension satisfies")
	errUnencoded  = errors.New("its header has b64, by which programs would check another payload")
	errAlgorithm  = errors.New("the alg of its header is not accepted")
	errType       = errors.New("the typ of its header is another one than the line requires")
	errUnknownKey = errors.New("no key has the kid of its header")
	errNoFit      = errors.New("no key fits the alg of its header")
	errSignature  = errors.New("its signature is wrong")
	errIssuer     = errors.New("its iss is another issuer")
	errAudience   = errors.New("its aud is another audience")
	errNoEnd      = errors.New("it has no exp")
	errTime       = errors.New("its exp or nbf is no number")
	errEarly      = errors.New("its nbf lies ahead")
	errLate       = errors.New("its exp is over")
)
