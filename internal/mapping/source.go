package mapping

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/rules"
)

// addDeclared adds the parameter of a line of [params], from the first source that has a
// value. It leaves a late source, and those after it, to addLate.
func (q *original) addDeclared(d *rules.ParamDecl, p *rules.Params) {
	for i := range d.Sources {
		s := &d.Sources[i]
		if s.IsLate() {
			return
		}
		if value := q.known(q.source(s)); value != "" {
			addFrom(p, d, i, hashIf(s.Hashed, value))
			return
		}
	}
}

// addLate adds the parameter of a line of [params] from its late source or those after
// it, unless it has a value other than a derived one.
func (q *original) addLate(d *rules.ParamDecl, p *rules.Params) {
	if _, set := p.Get(d.Name); set && !rules.IsDerived(d.Name) {
		return
	}
	late := false
	for i := range d.Sources {
		s := &d.Sources[i]
		if late = late || s.IsLate(); !late {
			continue
		}
		value := s.LookUp(p)
		if value == "" {
			value = q.known(q.source(s))
		}
		if value != "" {
			addFrom(p, d, i, hashIf(s.Hashed, value))
			return
		}
	}
}

// addFrom adds the parameter of a line of [params] from its source i.
func addFrom(p *rules.Params, d *rules.ParamDecl, i int, value string) {
	if i == 0 {
		add(p, d.Name, value)
	} else if value != "" {
		p.SetFrom(d.Sources[i].Kind, d.Name, value)
	}
}

// source returns the value of one source, "" if it does not exist at this door. The
// source `gateway` has no value here: X-Koala-Param headers override all other sources,
// so Params reads them in a later step.
func (q *original) source(s *rules.ParamSource) string {
	switch s.Kind {
	case rules.FromHeader:
		if s.Name == "host" {
			return q.host // net/http keeps Host out of the headers, and the Host of a check is the gateway's
		}
		return q.header(s.Name)
	case rules.FromCookie:
		if q.door.InProcess {
			if value := trim(q.parsedCookie(s.Name)); value != "" {
				return value
			}
		}
		return cookieValue(q.header("cookie"), s.Name)
	case rules.FromQuery:
		if q.door.Adds == doorname.Arguments {
			return FirstEntry(q.call.Args, s.Name)
		}
		return queryValue(q.query, s.Name)
	case rules.FromMetadata:
		if q.call.Metadata != nil {
			value, _ := q.call.Metadata(s.Name, s.Path)
			return value
		}
	case rules.FromDescriptor:
		return FirstEntry(q.call.Entries, s.Name)
	case rules.FromPrincipal:
		return q.call.Principal
	case rules.FromSNI:
		return lower(strings.TrimSuffix(q.call.SNI, ".")) // a name as hosts are
	case rules.FromConstant:
		return s.Name
	case rules.FromClientIP:
		if !q.address.IsValid() || s.V4 < 0 {
			return q.ip
		}
		return networkText(q.address, s)
	}
	return ""
}

// parsedCookie returns the cookie as net/http parses it for the program behind the
// middleware; "" without one.
func (q *original) parsedCookie(name string) string {
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

// addGatewayValue adds the parameter of a line of [params] with the source `gateway` from
// the gateway's X-Koala-Param header.
func (q *original) addGatewayValue(d *rules.ParamDecl, p *rules.Params) {
	value := q.header(d.GatewayHeader)
	if value == "" {
		return
	}
	for i := range d.Sources {
		if d.Sources[i].Kind == rules.FromGateway {
			addFrom(p, d, i, hashIf(d.Sources[i].Hashed, value))
			return
		}
	}
	add(p, d.Name, value)
}

// hashIf returns the first 32 hex digits of the value's SHA-256 if hashed, else the
// value. Surrounding blanks are trimmed before, as in conditions, because they must not
// change the identity of a caller.
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

// isPlaceholder reports whether value is a placeholder {…}, which Caddy leaves in place
// if it has no value for it.
func isPlaceholder(value string) bool {
	value = trim(value)
	if len(value) < 2 || value[0] != '{' {
		return false
	}
	return strings.IndexAny(value[1:], "{}") == len(value)-2 && value[len(value)-1] == '}'
}

func isBlank(value string) bool { return trim(value) == "" }

// trim removes the blanks that conditions ignore.
func trim(value string) string { return strings.TrimSpace(value) }
