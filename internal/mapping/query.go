package mapping

import "strings"

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
