package mapping

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/rules"
)

// declared is the value of a line of [params]: that of the first source that
// yields one, "" if none does.
func (q *original) declared(d *rules.ParamDecl) string {
	for i := range d.Sources {
		s := &d.Sources[i]
		if value := q.said(q.source(s)); value != "" {
			return hashIf(s.Hashed, value)
		}
	}
	return ""
}

// source is what one source says, "" where it does not exist at this door. The
// source `gateway` says nothing here: X-Koala-Param headers override all else,
// and so have a step of their own.
func (q *original) source(s *rules.ParamSource) string {
	switch s.Kind {
	case rules.FromHeader:
		if s.Name == "host" {
			return q.host // net/http keeps Host apart, and a check's own is the gateway's
		}
		return q.header(s.Name)
	case rules.FromCookie:
		if q.call.Door == doorname.Middleware {
			if value := trim(q.programsCookie(s.Name)); value != "" {
				return value
			}
		}
		return cookieValue(q.header("cookie"), s.Name)
	case rules.FromQuery:
		if q.call.Door == doorname.Koala {
			return firstEntry(q.call.Args, s.Name)
		}
		return queryValue(q.query, s.Name)
	case rules.FromMetadata:
		if q.call.Metadata != nil {
			value, _ := q.call.Metadata(s.Name, s.Path)
			return value
		}
	case rules.FromDescriptor:
		return firstEntry(q.call.Entries, s.Name)
	case rules.FromPrincipal:
		return q.call.Principal
	case rules.FromSNI:
		return q.call.SNI
	case rules.FromClientIP:
		if !q.address.IsValid() || s.V4 < 0 {
			return q.ip
		}
		return networkText(q.address, s)
	}
	return ""
}

// programsCookie is the cookie with this name that the program behind the
// middleware reads, by net/http; "" if it reads none.
func (q *original) programsCookie(name string) string {
	headers, ok := q.call.Headers.(HTTPHeaders)
	if !ok {
		return ""
	}
	cookie, err := (&http.Request{Header: http.Header(headers)}).Cookie(name)
	if err != nil {
		return ""
	}
	return cookie.Value
}

// gatewayValue is what the gateway's X-Koala-Param header says of a parameter
// that [params] leaves to it.
func (q *original) gatewayValue(d *rules.ParamDecl) string {
	value := q.header(d.GatewayHeader)
	if value == "" {
		return ""
	}
	for i := range d.Sources {
		if d.Sources[i].Kind == rules.FromGateway {
			return hashIf(d.Sources[i].Hashed, value)
		}
	}
	return value
}

// hashIf is the first 32 hex digits of the value's SHA-256, if asked for. The
// blanks around it go first, as they do in a condition: they must not make
// another caller of the same one.
func hashIf(hashed bool, value string) string {
	if !hashed {
		return value
	}
	return digest(trim(value))
}

func digest(value string) string {
	sum := sha256.Sum256([]byte(value))
	var text [32]byte
	hex.Encode(text[:], sum[:len(text)/2])
	return string(text[:])
}

// isPlaceholder tells whether value is one {…}, which Caddy leaves where it
// has nothing to put.
func isPlaceholder(value string) bool {
	value = trim(value)
	if len(value) < 2 || value[0] != '{' {
		return false
	}
	return strings.IndexAny(value[1:], "{}") == len(value)-2 && value[len(value)-1] == '}'
}

func isBlank(value string) bool { return trim(value) == "" }

// trim takes off the blanks that conditions take off.
func trim(value string) string { return strings.TrimSpace(value) }
