package mapping

import "strings"

// cookieValue returns the value of the first cookie with this name in a Cookie
// header. What is no cookie is passed over. A pair of quotes around the value
// is taken off, as applications do: else each caller would have two names.
func cookieValue(header, name string) string {
	for header != "" {
		var pair string
		pair, header, _ = strings.Cut(header, ";")
		key, value, found := strings.Cut(pair, "=")
		if !found || trim(key) != name {
			continue
		}
		value = trim(value)
		if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
			value = value[1 : len(value)-1]
		}
		return value
	}
	return ""
}
