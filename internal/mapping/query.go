package mapping

import "strings"

// nextArgument takes the first argument off a query. Its name and value are
// decoded; a broken escape stands for itself, as browsers and most servers
// have it, so that a client gains nothing by sending one.
func nextArgument(query string) (name, value, rest string) {
	pair, rest, _ := strings.Cut(query, "&")
	name, value, _ = decodeArgument(pair)
	return name, value, rest
}

// decodeArgument takes an argument apart; isPlain is false for one that net/url
// passes over.
func decodeArgument(pair string) (name, value string, isPlain bool) {
	name, value, _ = strings.Cut(pair, "=")
	name, isName := decodeEscapes(name, true)
	value, isValue := decodeEscapes(value, true)
	return name, value, isName && isValue && strings.IndexByte(pair, ';') < 0
}

// queryValue returns the value of the first argument with this name. One with a
// broken escape or a semicolon counts only where there is no other: applications
// in Go read the next one, and a client could keep the rules at the first.
func queryValue(query, name string) (faulty string) {
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		key, value, isPlain := decodeArgument(pair)
		switch {
		case key != name:
		case isPlain:
			return value
		case faulty == "":
			faulty = value
		}
	}
	return faulty
}

// firstEntry returns the value of the first entry with this key.
func firstEntry(entries []Entry, key string) string {
	for i := range entries {
		if entries[i].Key == key {
			return entries[i].Value
		}
	}
	return ""
}
