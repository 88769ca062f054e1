package mapping

import "strings"

// nextArgument takes the first argument off a query. Its name and value are
// decoded; a broken escape stands for itself, as browsers and most servers
// have it, so that a client gains nothing by sending one.
func nextArgument(query string) (name, value, rest string) {
	pair, rest, _ := strings.Cut(query, "&")
	name, value, _ = strings.Cut(pair, "=")
	name, _ = decodeEscapes(name, true)
	value, _ = decodeEscapes(value, true)
	return name, value, rest
}

// queryValue returns the value of the first argument with this name.
func queryValue(query, name string) string {
	for query != "" {
		var key, value string
		key, value, query = nextArgument(query)
		if key == name {
			return value
		}
	}
	return ""
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
