package mapping

import (
	"slices"
	"strings"

	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/rules"
)

// Token is what a request has as the token of a line of [tokens].
type Token struct {
	Outcome rules.JWTOutcome
	// Place is where the token was found; nil without one.
	Place *rules.JWTPlace
	// Err says why a token that the request has is not valid, without any part of it. Only
	// Options.Tokens has it.
	Err error
	// Of is the line.
	Of *rules.JWT

	claims []string
}

// verify verifies the tokens that the set uses, at doors that receive a request.
func (q *original) verify(set *rules.Set, o *Options) {
	if q.door.Reads == doorname.Nothing {
		return
	}
	if o.Tokens != nil && *o.Tokens != nil {
		q.tokens = *o.Tokens
		return
	}
	for _, t := range set.Tokens {
		if t.IsUsed() {
			q.tokens = append(q.tokens, q.verified(t, o.Tokens != nil))
		}
	}
	if o.Tokens != nil {
		*o.Tokens = q.tokens
	}
}

// verified finds and verifies one token. If explains is set, it also finds out why it is not
// valid.
func (q *original) verified(of *rules.JWT, explains bool) Token {
	token := Token{Of: of}
	for i := range of.Places {
		text, found := q.tokenAt(&of.Places[i])
		if !found {
			continue
		}
		token.Place = &of.Places[i]
		if explains {
			token.Outcome, token.claims, token.Err = of.Explain(text)
		} else {
			token.Outcome, token.claims = of.Verify(text)
		}
		break
	}
	return token
}

// claim returns the value of a claim of a verified token, "" without it.
func (q *original) claim(s *rules.ParamSource) string {
	of, place := s.Claim()
	for i := range q.tokens {
		if t := &q.tokens[i]; t.Of == of && t.Outcome == rules.JWTValid {
			return t.claims[place]
		}
	}
	return ""
}

// tokenAt returns the token at a place of the request, and reports whether the place has one.
// The text is "" if it has more than one: programs disagree about which of them counts.
func (q *original) tokenAt(place *rules.JWTPlace) (text string, found bool) {
	switch place.Kind {
	case rules.InBearer:
		return q.bearer()
	case rules.InHeader:
		value := trim(q.header(place.Name))
		if q.isRepeated(place.Name) {
			return "", value != ""
		}
		return value, value != ""
	case rules.InCookie:
		return single(q.header("cookie"), ";", func(pair string) (string, bool) {
			name, value, found := strings.Cut(pair, "=")
			return unquoted(trim(value)), found && trimKey(name) == place.Name
		})
	}
	return single(q.query, "&", func(pair string) (string, bool) {
		name, value, _ := decodeArgument(pair)
		return value, name == place.Name
	})
}

// TokenMark stands for a token in texts for people.
const TokenMark = "***"

// WithoutTokens returns a target of a request in which the tokens in its query are masked.
func WithoutTokens(set *rules.Set, target string) string {
	start, query, found := strings.Cut(target, "?")
	if !found {
		return target
	}
	arguments := strings.Split(query, "&")
	for i, argument := range arguments {
		name, _, _ := decodeArgument(argument)
		written, _, hasValue := strings.Cut(argument, "=")
		if hasValue && slices.ContainsFunc(set.Tokens, func(t *rules.JWT) bool { return t.IsAt(rules.InQuery, name) }) {
			arguments[i] = written + "=" + TokenMark
		}
	}
	return start + "?" + strings.Join(arguments, "&")
}

// bearerScheme is the scheme of tokens in an Authorization header (RFC 6750), in any case.
const bearerScheme = "bearer"

// bearer returns the token of an Authorization header. Gateways join headers that occur several
// times by commas, which are part of other schemes, such as Digest, too.
func (q *original) bearer() (text string, found bool) {
	value := trim(q.header("authorization"))
	if value == "" {
		return "", false
	}
	if q.isRepeated("authorization") {
		return "", true
	}
	for rest, more := value, true; more; {
		var part string
		part, rest, more = strings.Cut(rest, ",")
		part = trim(part)
		end := strings.IndexAny(part, " \t")
		if end < 0 {
			end = len(part)
		}
		if len(part[:end]) == len(bearerScheme) && strings.EqualFold(part[:end], bearerScheme) {
			found, text = true, trim(part[end:])
		}
	}
	if strings.IndexByte(value, ',') >= 0 {
		text = ""
	}
	return text, found
}

// isRepeated reports whether the client has sent a header several times, as far as the door
// knows it.
func (q *original) isRepeated(name string) bool {
	headers, ok := q.call.Headers.(HTTPHeaders)
	if !ok {
		return false
	}
	var buffer [64]byte
	return len(headers[string(appendCanonical(buffer[:0], name))]) > 1
}

// single returns the value that one reads from the parts of a list, "" if it reads different
// ones, and reports whether it reads any.
func single(list, separator string, one func(part string) (value string, ok bool)) (value string, found bool) {
	for list != "" {
		var part string
		part, list, _ = strings.Cut(list, separator)
		switch next, ok := one(part); {
		case !ok || isBlank(next):
		case found && next != value:
			return "", true
		default:
			value, found = next, true
		}
	}
	return value, found
}

// unquoted removes the quotes around the value of a cookie.
func unquoted(value string) string {
	if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
		return value[1 : len(value)-1]
	}
	return value
}
