package mapping

import (
	"strings"

	"golang.org/x/net/http/httpguts"
)

// cookieValue returns the value of the first cookie with this name in a Cookie
// header. What is no cookie is passed over, and a value that no cookie may have
// counts only where there is no other: applications in Go read the next one, and
// a client could keep the rules at the first. A pair of quotes around the value
// is taken off, as applications do: else each caller would have two names.
func cookieValue(header, name string) (faulty string) {
	for header != "" {
		var pair string
		pair, header, _ = strings.Cut(header, ";")
		key, value, found := strings.Cut(pair, "=")
		// A blank beyond ASCII would be part of the name.
		if !found || strings.Trim(key, " \t") != name {
			continue
		}
		value = trim(value)
		if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
			value = value[1 : len(value)-1]
		}
		switch {
		case isCookieValue(value):
			return value
		case faulty == "":
			faulty = value
		}
	}
	return faulty
}

// isCookieValue tells whether net/http takes a value for a cookie's. Blanks and
// commas are in many, against the standard.
func isCookieValue(value string) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// CookiesApart undoes what Envoy does to several Cookie headers: it joins them
// by a comma, as it does all headers, where an application reads each of them.
// A client could hide a cookie from the rules behind another one. The comma
// ends a cookie if a name and an equals sign follow; values hold commas too,
// against the standard.
func CookiesApart(joined string) string {
	var apart []byte
	from := 0
	for i := range len(joined) {
		if joined[i] == ',' && beginsCookie(joined[i+1:]) {
			apart = append(append(apart, joined[from:i]...), "; "...)
			from = i + 1
		}
	}
	if apart == nil {
		return joined
	}
	return string(append(apart, joined[from:]...))
}

// beginsCookie tells whether a name and an equals sign stand before the next
// comma, which no name holds.
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
