package ruletest

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/koalagate/koalagate/internal/explain"
	"github.com/koalagate/koalagate/internal/tokens"
	"github.com/koalagate/koalagate/rules"
)

// lifetime is how long a token is valid after the step that sends it, unless the case says so.
const lifetime = time.Hour

// issuers sign the tokens of a run, and verify them at the time of its steps.
type issuers struct {
	now   time.Time
	zone  *time.Location
	named map[string]*issuer // by the name of a line of [tokens]; nil for lines whose tokens are not used
	ring  *tokens.Ring       // of the lines for which no step has a token
}

// issuer signs the tokens of one line of [tokens] with a key of the run.
type issuer struct {
	terms     *rules.JWT
	algorithm jose.SignatureAlgorithm
	private   any
	keys      *tokens.Keys
	isAway    bool // its keys could not be loaded
}

// Keys returns the key of the run. It implements tokens.Source.
func (s *issuer) Keys() *tokens.Keys {
	if s.isAway {
		return nil
	}
	return s.keys
}

// Want does nothing: there are no other keys.
func (s *issuer) Want(string) {}

// newIssuers returns the issuers of the tokens that the cases of a file send.
func newIssuers(f *File) *issuers {
	i := &issuers{named: make(map[string]*issuer)}
	i.ring = tokens.NewRing(tokens.Options{Now: i.clock})
	for _, c := range f.Cases {
		for j := range c.Steps {
			for _, t := range c.Steps[j].Tokens {
				i.named[t.Name] = nil
			}
		}
	}
	return i
}

func (i *issuers) clock() time.Time { return i.now }

// open is a function for rules.Options.OpenToken. A key of the run replaces the keys of the lines
// of which cases send tokens.
func (i *issuers) open(t *rules.JWT, text []byte) (rules.JWTVerifier, []error, error) {
	if _, isSent := i.named[t.Name]; !isSent {
		return i.ring.Open(t, text)
	}
	s := &issuer{terms: t}
	if err := s.makeKey(); err != nil {
		return nil, nil, fmt.Errorf("cannot make a key for the tokens of the cases: %w", err)
	}
	i.named[t.Name] = s
	return tokens.New(t, s, tokens.Options{Now: i.clock}), nil, nil
}

// keyKinds make keys for algorithms, the cheapest ones first.
var keyKinds = []struct {
	algorithms []string
	make       func() (private, public any, err error)
}{
	{[]string{"EdDSA"}, func() (any, any, error) {
		public, private, err := ed25519.GenerateKey(rand.Reader)
		return private, public, err
	}},
	{[]string{"HS256", "HS384", "HS512"}, func() (any, any, error) {
		secret := make([]byte, 64)
		_, err := rand.Read(secret)
		return secret, secret, err
	}},
	{[]string{"ES256"}, curveKey(elliptic.P256())},
	{[]string{"ES384"}, curveKey(elliptic.P384())},
	{[]string{"ES512"}, curveKey(elliptic.P521())},
	{[]string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}, func() (any, any, error) {
		private, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			return nil, nil, err
		}
		return private, private.Public(), nil
	}},
}

func curveKey(curve elliptic.Curve) func() (private, public any, err error) {
	return func() (any, any, error) {
		private, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			return nil, nil, err
		}
		return private, private.Public(), nil
	}
}

// makeKey makes a key for the cheapest algorithm of the line.
func (s *issuer) makeKey() error {
	for _, kind := range keyKinds {
		at := slices.IndexFunc(kind.algorithms, func(name string) bool { return slices.Contains(s.terms.Algorithms, name) })
		if at < 0 {
			continue
		}
		private, public, err := kind.make()
		if err != nil {
			return err
		}
		set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: public}}})
		if err != nil {
			return err
		}
		s.algorithm, s.private = jose.SignatureAlgorithm(kind.algorithms[at]), private
		s.keys, err = tokens.ParseKeys(set, true)
		return err
	}
	return fmt.Errorf("no key for one of the algorithms %s", strings.Join(s.terms.Algorithms, ", "))
}

// ask returns the question of a step, with its tokens.
func (i *issuers) ask(s *Step) (explain.Options, error) {
	o := s.Ask
	for _, from := range i.named {
		if from != nil {
			from.isAway = false
		}
	}
	if len(s.Tokens) > 0 {
		o.Headers = o.Headers.Clone()
	}
	for j := range s.Tokens {
		t := &s.Tokens[j]
		from := i.named[t.Name]
		text, err := from.sign(t, i.now, i.zone)
		if err == nil {
			err = put(&from.terms.Places[0], text, &o)
		}
		if err != nil {
			return o, fmt.Errorf("the token %s: %w", t.Name, err)
		}
		from.isAway = t.Outcome == rules.JWTUnavailable
	}
	return o, nil
}

// sign returns a token for a step at now.
func (s *issuer) sign(t *Token, now time.Time, zone *time.Location) (string, error) {
	claims := map[string]any{"iss": s.terms.Issuer, "exp": now.Add(lifetime).Unix()}
	if len(s.terms.Audiences) > 0 {
		claims["aud"] = s.terms.Audiences[0]
	}
	if t.Outcome == rules.JWTExpired {
		claims["exp"] = now.Add(-s.terms.Leeway - time.Second).Unix()
	}
	maps.Copy(claims, t.Claims)
	for name, value := range t.Claims {
		switch value := value.(type) {
		case nil:
			delete(claims, name)
		case claimTime:
			seconds, err := value.seconds(now, zone)
			if err != nil {
				return "", err
			}
			claims[name] = seconds
		}
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	options := new(jose.SignerOptions)
	if s.terms.Type != "" {
		options.WithType(jose.ContentType(s.terms.Type))
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: s.algorithm, Key: s.private}, options)
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return "", err
	}
	text, err := signed.CompactSerialize()
	if err != nil || t.Outcome != rules.JWTInvalid {
		return text, err
	}
	return forged(text)
}

// forged returns a token with another signature.
func forged(text string) (string, error) {
	at := strings.LastIndexByte(text, '.') + 1
	signature, err := base64.RawURLEncoding.DecodeString(text[at:])
	if err != nil {
		return "", err
	}
	signature[len(signature)/2] ^= 1
	return text[:at] + base64.RawURLEncoding.EncodeToString(signature), nil
}

// put puts a token where its line expects it first.
func put(place *rules.JWTPlace, token string, o *explain.Options) error {
	header, value := place.Name, token
	switch place.Kind {
	case rules.InBearer:
		header, value = "Authorization", "Bearer "+token
	case rules.InCookie:
		pair := place.Name + "=" + token
		if before := o.Headers.Get("Cookie"); before != "" {
			pair = before + "; " + pair
		}
		o.Headers.Set("Cookie", pair)
		return nil
	case rules.InQuery:
		separator := "?"
		if strings.Contains(o.Target, "?") {
			separator = "&"
		}
		o.Target += separator + url.QueryEscape(place.Name) + "=" + token
		return nil
	}
	if o.Headers.Get(header) != "" {
		return fmt.Errorf("the step has the header %s, where the token would be; remove one", header)
	}
	o.Headers.Set(header, value)
	return nil
}
