package tokens

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/koalagate/koalagate/rules"
)

// header is what the header of a token says.
type header struct {
	algorithm, id, kind string
	hasID               bool
}

// strict decodes one form of each byte sequence only: no padding, no line ends, no unused bits.
var strict = base64.RawURLEncoding.Strict()

// decode decodes a part of a token. The library skips line ends.
func decode(part string) ([]byte, error) {
	if strings.ContainsAny(part, "\r\n") {
		return nil, errForm
	}
	return strict.DecodeString(part)
}

// open reads the header of a token, and returns its payload, undecoded as JSON, and signature.
func open(token string) (h header, payload, signature []byte, err error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return h, nil, nil, errForm
	}
	var decoded [3][]byte
	for i, part := range parts {
		if decoded[i], err = decode(part); err != nil {
			return h, nil, nil, errForm
		}
	}
	err = members(decoded[0], func(name string, value jsontext.Value) error {
		switch name {
		case "alg":
			return text(value, &h.algorithm)
		case "kid":
			h.hasID = true
			return text(value, &h.id)
		case "typ":
			return text(value, &h.kind)
		case "crit":
			return errCritical
		case "b64": // RFC 7797, section 7: a payload of JWT is always encoded
			if value.Kind() != 't' {
				return errUnencoded
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, errCritical) && !errors.Is(err, errUnencoded) {
		err = errForm
	}
	return h, decoded[1], decoded[2], err
}

// members calls visit for each member of data, which must be one JSON object in valid UTF-8
// without a repeated name at any depth.
func members(data []byte, visit func(name string, value jsontext.Value) error) error {
	d := jsontext.NewDecoder(bytes.NewReader(data))
	if token, err := d.ReadToken(); err != nil || token.Kind() != '{' {
		return errForm
	}
	for d.PeekKind() == '"' {
		token, err := d.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		value, err := d.ReadValue()
		if err != nil {
			return err
		}
		if err := visit(name, value); err != nil {
			return err
		}
	}
	if _, err := d.ReadToken(); err != nil { // the end of the object, or what is in its place
		return err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return errForm
	}
	return nil
}

// text stores a value that must be a text.
func text(value jsontext.Value, to *string) error {
	if value.Kind() != '"' {
		return errForm
	}
	unquoted, err := jsontext.AppendUnquote(nil, value)
	*to = string(unquoted)
	return err
}

// instant stores a number of seconds since 1970.
func instant(value jsontext.Value, to *float64) (err error) {
	if value.Kind() != '0' {
		return errForm
	}
	*to, err = strconv.ParseFloat(string(value), 64)
	return err
}

// readClaims reads the payload of a token whose signature is valid.
func readClaims(payload []byte, terms *rules.JWT) (*verified, error) {
	known := &verified{claims: make([]string, len(terms.Claims))}
	issuer, hasEnd, isMeant, hasTimes := "", false, len(terms.Audiences) == 0, true
	err := members(payload, func(name string, value jsontext.Value) (err error) {
		switch name {
		case "iss":
			err = text(value, &issuer)
		case "exp":
			hasEnd = true
			hasTimes = instant(value, &known.expires) == nil && hasTimes
		case "nbf":
			hasTimes = instant(value, &known.begins) == nil && hasTimes
		case "aud":
			isMeant = isMeant || isFor(value, terms.Audiences)
		}
		for i := range terms.Claims {
			if c := &terms.Claims[i]; len(c.Path) > 0 && c.Path[0] == name {
				known.claims[i] = claim(value, c)
			}
		}
		return err
	})
	switch {
	case err != nil:
		return nil, errForm
	case issuer != terms.Issuer:
		return nil, errIssuer
	case !isMeant:
		return nil, errAudience
	case !hasEnd:
		return nil, errNoEnd
	case !hasTimes:
		return nil, errTime
	}
	return known, nil
}
