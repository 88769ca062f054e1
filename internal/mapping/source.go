package mapping

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/rules"
)

// addDeclared adds the parameters of [params], each from its first source that has a value.
// It leaves a late source, and those after it, to addLate.
func (q *original) addDeclared(set *rules.Set, p *rules.Params) {
	for _, d := range set.Params {
		for i := range d.Sources {
			s := &d.Sources[i]
			if s.IsLate() {
				break
			}
			if value := q.valueOf(s); value != "" {
				addFrom(p, d.Name, s, i > 0, value)
				break
			}
		}
	}
}

// addLate adds the parameters of [params] that have a late source, from that source or those
// after it, unless they have a value other than a derived one.
func (q *original) addLate(set *rules.Set, p *rules.Params) {
	for _, d := range set.Params {
		first := d.FirstLate()
		if first < 0 {
			continue
		}
		if _, given := p.Get(d.Name); given && !rules.IsDerived(d.Name) {
			continue
		}
		for i := first; i < len(d.Sources); i++ {
			s := &d.Sources[i]
			value := s.LookUp(p)
			if value == "" {
				value = q.valueOf(s)
			}
			if value != "" {
				addFrom(p, d.Name, s, i > 0, value)
				break
			}
		}
	}
}

// valueOf returns the value of a source, or "" if it has no meaning. No gateway sets claims and
// constants, so that braces around them make no placeholder.
func (q *original) valueOf(s *rules.ParamSource) string {
	value := q.source(s)
	if s.Kind != rules.FromJWT && s.Kind != rules.FromConstant {
		return q.known(value)
	}
	if isBlank(value) {
		return ""
	}
	return value
}

// addFrom adds a parameter with the value of a source, if it has one. later reports that the
// source is not the first of its line in [params].
func addFrom(p *rules.Params, name string, from *rules.ParamSource, later bool, value string) {
	value = modified(from, value)
	if later && value != "" {
		p.SetFrom(from.Kind, name, value)
		return
	}
	add(p, name, value)
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
	case rules.FromJWT:
		return q.claim(s)
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

// addGatewayValues adds the parameters of [params] with the source `gateway` from the gateway's
// X-Koala-Param headers.
func (q *original) addGatewayValues(set *rules.Set, p *rules.Params) {
	for _, d := range set.Params {
		if d.GatewayHeader == "" {
			continue
		}
		value := q.header(d.GatewayHeader)
		if value == "" {
			continue
		}
		if i := slices.IndexFunc(d.Sources, func(s rules.ParamSource) bool { return s.Kind == rules.FromGateway }); i >= 0 {
			addFrom(p, d.Name, &d.Sources[i], i > 0, value)
		} else {
			add(p, d.Name, value)
		}
	}
}

// modified returns the value of a source as its modifiers change it: in lower case, then
// hashed.
func modified(s *rules.ParamSource, value string) string {
	if s.Lower {
		value = lower(value)
	}
	if s.Hashed {
		value = Hashed(value)
	}
	return value
}

// Hashed returns a value as the modifier hashed makes it: the first 32 hex digits of its
// SHA-256, in lower case. Surrounding blanks are trimmed before, as in conditions, because
// they must not change the identity of a caller.
func Hashed(value string) string { return digest(trim(value)) }

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

func isBlank(value string) bool {
	if value != "" && ' ' < value[0] && value[0] < utf8.RuneSelf {
		return false // as almost always, without a look at the end
	}
	return trim(value) == ""
}

// trim removes the blanks that conditions ignore.
func trim(value string) string { return strings.TrimSpace(value) }

// trimKey removes the blanks around the name of a cookie that net/http removes; others are part
// of the name.
func trimKey(key string) string {
	for key != "" && isKeyBlank(key[0]) {
		key = key[1:]
	}
	for key != "" && isKeyBlank(key[len(key)-1]) {
		key = key[:len(key)-1]
	}
	return key
}

func isKeyBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// cookieValue returns the value of the first cookie with this name in a Cookie header.
// It skips parts that are not cookies. An invalid value counts only if there is no
// valid one: Go applications skip it too, and otherwise a client could show the rules a
// value that the application does not use. Quotes around the value are removed, as
// applications do; otherwise each caller would have two identities.
func cookieValue(header, name string) (invalid string) {
	for header != "" {
		var pair string
		pair, header, _ = strings.Cut(header, ";")
		key, value, found := strings.Cut(pair, "=")
		if !found || trimKey(key) != name {
			continue
		}
		value = unquoted(trim(value))
		switch {
		case isCookieValue(value):
			return value
		case invalid == "":
			invalid = value
		}
	}
	return invalid
}

// isCookieValue reports whether net/http accepts a cookie's value. Many
// values contain blanks and commas, contrary to the standard.
func isCookieValue(value string) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// SplitCookies separates Cookie headers that Envoy joined by a comma, as it joins all
// headers. Applications read each of them, so a client could otherwise hide a cookie
// from the rules behind another one. A comma ends a cookie if a name and an equals sign
// follow, because values may contain commas too, contrary to the standard.
func SplitCookies(joined string) string {
	var separated []byte
	from := 0
	for i := range len(joined) {
		if joined[i] == ',' && beginsCookie(joined[i+1:]) {
			separated = append(append(separated, joined[from:i]...), "; "...)
			from = i + 1
		}
	}
	if separated == nil {
		return joined
	}
	return string(append(separated, joined[from:]...))
}

// beginsCookie reports whether a name and an equals sign precede the next comma. Names
// cannot contain a comma.
func beginsCookie(s string) bool {
	for i := range len(s) {
		switch s[i] {
		case ',':
			return false
		case '=':
			return httpguts.ValidHeaderFieldName(trim(s[:i]))
		}
	}
	return false
}

// nextArgument cuts the first argument from a query. Its name and value are decoded; an
// invalid escape stands for itself, as in browsers and most servers, so that a client
// gains nothing by sending one.
func nextArgument(query string) (name, value, rest string) {
	pair, rest, _ := strings.Cut(query, "&")
	name, value, _ = decodeArgument(pair)
	return name, value, rest
}

// decodeArgument returns the name and value of an argument; valid is false for an
// argument that net/url skips.
func decodeArgument(pair string) (name, value string, valid bool) {
	name, value, _ = strings.Cut(pair, "=")
	name, isName := decodeEscapes(name, true)
	value, isValue := decodeEscapes(value, true)
	return name, value, pair != "" && isName && isValue && strings.IndexByte(pair, ';') < 0
}

// queryValue returns the value of the first argument with this name. An argument with an
// invalid escape or a semicolon counts only if there is no other: Go applications skip
// it, and otherwise a client could show the rules a value that the application does not
// use.
func queryValue(query, name string) (invalid string) {
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		key, value, valid := decodeArgument(pair)
		switch {
		case key != name:
		case valid:
			return value
		case invalid == "":
			invalid = value
		}
	}
	return invalid
}

// FirstEntry returns the value of the first entry with this key, "" without one.
func FirstEntry(entries []Entry, key string) string {
	for i := range entries {
		if entries[i].Key == key {
			return entries[i].Value
		}
	}
	return ""
}
