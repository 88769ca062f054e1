package mapping

import (
	"strings"

	"golang.org/x/net/http/httpguts"
)

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
		// net/http removes these characters; others would be part of the name.
		if !found || strings.Trim(key, " \t\r\n") != name {
			continue
		}
		value = trim(value)
		if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
			value = value[1 : len(value)-1]
		}
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
