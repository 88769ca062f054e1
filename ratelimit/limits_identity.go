package ratelimit

import (
	"encoding/binary"
	"errors"
	"strings"

	"github.com/koalagate/koalagate/internal/envoylimits"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/rules"
)

// Identify returns the match of the imported limit with a path and of the descriptor with the
// values of its keys, and all values of the descriptor by key. The error is for operators.
func (s *Limits) Identify(path string, values map[string]string) (rules.Match, map[string]string, error) {
	set := s.options.Current()
	if set == nil {
		return rules.Match{}, nil, errors.New("no limits are loaded yet")
	}
	domain, entries, err := set.Identify(path, values)
	if err != nil {
		return rules.Match{}, nil, err
	}
	m, limit := s.match(set, domain, entries)
	if limit.Unlimited {
		return rules.Match{}, nil, errors.New("the limit is unlimited: it counts nothing")
	}
	all := make(map[string]string, len(entries))
	for _, e := range entries {
		all[e.Key] = e.Value
	}
	return m, all, nil
}

// match returns the match of a descriptor that has a limit.
func (s *Limits) match(set *envoylimits.Set, domain string, entries []mapping.Entry) (rules.Match, *envoylimits.Limit) {
	c := &limitCall{limits: s}
	c.message.domain = domain
	set.Match(domain, entries, &c.match)
	limit := c.match.Limit
	if limit.Unlimited {
		return rules.Match{}, limit
	}
	c.appendSubject(&applied{limit: limit}, entries, c.match.Shared)
	rule := s.rules.of(set, limit, always) // whose weight of 0 needs room for another hit
	return rules.Match{Rule: rule, Identity: c.subject, Limits: rule.Limits, Cost: 1}, limit
}

// Values returns the domain and the entries that the identity of an imported limit names. The
// key of an entry ends at its first underscore if two reloads have passed since the limit was
// in force.
func (s *Limits) Values(m *rules.Match) []rules.Param {
	var keys []string
	if limit := s.rules.current.Load().limit(m.Rule); limit != nil {
		keys = limit.Keys()
	}
	if len(m.Identity) < 2 || m.Identity[0] != importedSubject {
		return nil
	}
	var values []rules.Param
	for rest := m.Identity[2:]; len(rest) > 0; {
		length, n := binary.Uvarint(rest)
		if n <= 0 || length > uint64(len(rest)-n) {
			return values
		}
		text := string(rest[n : n+int(length)])
		rest = rest[n+int(length):]
		if values == nil {
			values = []rules.Param{{Name: "domain", Value: text}}
			continue
		}
		name, value, _ := strings.Cut(text, "_")
		if i := len(values) - 1; i < len(keys) && strings.HasPrefix(text, keys[i]+"_") {
			name, value = keys[i], text[len(keys[i])+1:]
		}
		values = append(values, rules.Param{Name: name, Value: value})
	}
	return values
}
