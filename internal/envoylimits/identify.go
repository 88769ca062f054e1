package envoylimits

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/koalagate/koalagate/internal/mapping"
)

// Identify returns a descriptor that counts by the limit with a path, as /rlconfig prints it:
// its domain, and its entries with the values of their keys. A value that the configuration
// states may be left out. Values that share a threshold count together: the pattern stands for
// them, and one of them is an error. The error says what the limit counts by.
func (s *Set) Identify(path string, values map[string]string) (domain string, entries []mapping.Entry, err error) {
	l := s.paths[path]
	if l == nil {
		return "", nil, fmt.Errorf("there is no limit %.200q; want a path as /rlconfig prints it", path)
	}
	surplus := maps.Clone(values)
	for _, d := range l.levels {
		value, given := values[d.Key]
		if !given {
			value = d.Value
		}
		if value == "" {
			return "", nil, fmt.Errorf("limit %s counts by %s; the value of %s is missing", path, l.countsBy(), d.Key)
		}
		delete(surplus, d.Key)
		entries = append(entries, mapping.Entry{Key: d.Key, Value: value})
	}
	if len(surplus) > 0 {
		return "", nil, fmt.Errorf("limit %s counts by %s; it does not count by %s", path, l.countsBy(), strings.Join(slices.Sorted(maps.Keys(surplus)), ", "))
	}
	var m Match
	if s.Match(l.domain, entries, &m); m.Limit != l {
		return "", nil, fmt.Errorf("limit %s does not count descriptors with these values", path)
	}
	for i, pattern := range m.Shared {
		if e := &entries[i]; pattern != "" && e.Value != pattern {
			return "", nil, fmt.Errorf("limit %s counts all values of %s that match %s together; want %s=%s", path, e.Key, pattern, e.Key, pattern)
		}
	}
	return l.domain, entries, nil
}

// countsBy returns the keys of the limit.
func (l *Limit) countsBy() string { return strings.Join(l.Keys(), ", ") }

// Keys returns the keys of the levels of the limit, none for the limit of a descriptor.
func (l *Limit) Keys() []string {
	keys := make([]string, len(l.levels))
	for i, d := range l.levels {
		keys[i] = d.Key
	}
	return keys
}
