package rules

import (
	"errors"
	"slices"
	"time"
)

// JWT is a line of [tokens]: which tokens are valid, and where requests have them. It is
// immutable once Parse has returned.
type JWT struct {
	Name string
	// Param is the name of the parameter with the outcome, jwt.NAME.
	Param string
	// From is where the keys come from, and Keys the path, the address or the issuer.
	From KeysFrom
	Keys string
	// Issuer is the exact value of the claim iss.
	Issuer string
	// Audiences are the texts of which the claim aud must have one; none accepts any.
	Audiences []string
	// Algorithms are the accepted values of the header's alg, as RFC 7518 and RFC 8037 name them.
	Algorithms []string
	// Places are where a request may have the token: the first one that it has counts.
	Places []JWTPlace
	// Leeway is the tolerance for exp and nbf.
	Leeway time.Duration
	// Refresh is the time between two fetches of keys by address.
	Refresh time.Duration
	// Type is the required type of the header's typ, in lower case and without application/;
	// "" accepts any.
	Type string
	// Claims are what sources of [params] read from a valid token.
	Claims []Claim
	Pos    Position

	verifier JWTVerifier
	keysHash []byte // of the text of the file; nil without one
	isUsed   bool
}

// tokenPrefix precedes the name of a token in the name of the parameter with its outcome.
const tokenPrefix = "jwt."

// IsUsed reports whether the set uses the token: a rule, a line of [forward] or the key of a
// table names its parameter, or a line of [params] one of its claims. For koalagate's own programs, may change.
func (j *JWT) IsUsed() bool { return j.isUsed }

// IsAt reports whether requests may have the token at a place. For koalagate's own programs, may
// change.
func (j *JWT) IsAt(kind JWTPlaceKind, name string) bool {
	return slices.Contains(j.Places, JWTPlace{kind, name})
}

// clientKey identifies a header, a cookie or an argument of the query.
type clientKey struct {
	kind SourceKind
	name string
}

// isIn reports whether a source reads a part of a request that may have the token, as it is.
func (j *JWT) isIn(s *ParamSource) bool {
	if s.Hashed {
		return false
	}
	return slices.ContainsFunc(j.Places, func(p JWTPlace) bool {
		parts := p.parts()
		return slices.Contains(parts[:], clientKey{s.Kind, s.Name})
	})
}

// parts returns the parts of a request that have a token at the place, of which two may be one.
func (p *JWTPlace) parts() [2]clientKey {
	part := clientKey{FromQuery, p.Name}
	switch p.Kind {
	case InBearer:
		part = clientKey{FromHeader, "authorization"}
	case InHeader:
		part.kind = FromHeader
	case InCookie:
		part.kind = FromCookie
		return [...]clientKey{part, {FromHeader, "cookie"}}
	}
	return [...]clientKey{part, part}
}

// MayHaveToken reports whether a source reads a part of a request that may have a token, as it
// is. For koalagate's own programs, may change.
func (s *Set) MayHaveToken(from *ParamSource) bool {
	return slices.ContainsFunc(s.Tokens, func(t *JWT) bool { return t.isIn(from) })
}

// Verify verifies a token. Without a verifier it is unavailable.
func (j *JWT) Verify(token string) (JWTOutcome, []string) {
	if j.verifier == nil {
		return JWTUnavailable, nil
	}
	return j.verifier.Verify(token)
}

// Explain verifies a token as Verify does. The error says why it is not valid, without any part
// of the token; it is nil for a valid one. For koalagate's own programs, may change.
func (j *JWT) Explain(token string) (outcome JWTOutcome, claims []string, err error) {
	if v, ok := j.verifier.(JWTExplainer); ok {
		return v.Explain(token)
	}
	outcome, claims = j.Verify(token)
	if outcome != JWTValid {
		err = errNotValid
	}
	return outcome, claims, err
}

var errNotValid = errors.New("its verifier does not say why")

// Claim returns the token of a source FromJWT, and the place of its claim among those of the
// token; nil for any other source. For koalagate's own programs, may change.
func (s *ParamSource) Claim() (j *JWT, place int) { return s.jwt, s.place }

// KeysFrom is where the keys of a token come from.
type KeysFrom uint8

// The origins of keys.
const (
	FromFile    KeysFrom = iota // a JWK set, or public keys and certificates in PEM
	FromAddress                 // the address of a JWK set
	FromIssuer                  // an issuer of OpenID Connect, whose discovery document has that address
)

// JWTPlace is a part of a request that may have a token.
type JWTPlace struct {
	Kind JWTPlaceKind
	Name string // of the header, in lower case, the cookie, or the argument of the query
}

// String returns the place as rule files have it.
func (p *JWTPlace) String() string {
	if p.Name == "" {
		return jwtPlaces[p.Kind]
	}
	return jwtPlaces[p.Kind] + " " + p.Name
}

// JWTPlaceKind is the kind of a JWTPlace.
type JWTPlaceKind uint8

// jwtPlaces are the words of the places.
var jwtPlaces = [...]string{InBearer: "bearer", InHeader: "header", InCookie: "cookie", InQuery: "query"}

// The kinds of places.
const (
	InBearer JWTPlaceKind = iota // Authorization with the scheme Bearer
	InHeader
	InCookie
	InQuery
)

// Claim is what a source reads from a token.
type Claim struct {
	// Path has the names of members, from the outermost to the innermost.
	Path []string
	// Has is a word: the claim's value is then "yes" if it is a list that contains the word, or
	// a text of words in blanks that does. "" reads the claim itself.
	Has string
}

// JWTOutcome says how the verification of a token ended.
type JWTOutcome uint8

// The outcomes, in the order in which they are worse.
const (
	JWTAbsent      JWTOutcome = iota // the request has no token
	JWTValid                         // signature, times and terms hold
	JWTExpired                       // it would be valid but for exp
	JWTInvalid                       // anything else
	JWTUnavailable                   // there are no keys yet, or no processor was free in time
)

var jwtOutcomes = [...]string{
	JWTAbsent: "absent", JWTValid: "valid", JWTExpired: "expired", JWTInvalid: "invalid", JWTUnavailable: "unavailable",
}

// String returns the value of the parameter jwt.NAME.
func (o JWTOutcome) String() string {
	if int(o) < len(jwtOutcomes) {
		return jwtOutcomes[o]
	}
	return ""
}

// JWTVerifier verifies the tokens of a line of [tokens]. It is safe for concurrent use.
type JWTVerifier interface {
	// Verify returns how the verification of a token ended, and the values of the line's
	// claims, "" for those that it lacks. Only a valid token has claims. The caller does not
	// change them. An empty token is invalid: it stands for what a request has where programs
	// may read different tokens, or an empty one.
	Verify(token string) (JWTOutcome, []string)
}

// JWTExplainer is a JWTVerifier that says why a token is not valid.
type JWTExplainer interface {
	// Explain verifies a token as Verify does. The error says why it is not valid, without any
	// part of the token.
	Explain(token string) (JWTOutcome, []string, error)
}
