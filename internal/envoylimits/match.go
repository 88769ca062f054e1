package envoylimits

import (
	"bytes"
	"strings"

	"github.com/koalagate/koalagate/internal/mapping"
)

// Match is the result of Set.Match, with memory that the next call reuses.
type Match struct {
	// Limit is nil if no limit applies.
	Limit *Limit
	// Path is the name of the statistics: the limit's, unless the configuration
	// asks for the values of the request.
	Path string
	// Shared has for each entry the pattern that takes the place of its value in the
	// identity of the counter, "" for none. It is nil if no entry has one.
	Shared []string

	key   []byte
	steps []step
}

// step is one level of the walk.
type step struct {
	node      *node
	pattern   string // that matched the entry, "" for none
	withValue bool   // key_value matched, or a pattern
}

// Knows reports whether the configuration has the domain.
func (s *Set) Knows(domain string) bool { return s.domains[domain] != nil }

// Match finds the limit of a descriptor. On each level it takes the child named
// key_value, else the first pattern that matches it, else the child named key. A limit
// applies only if it is on the level of the last entry.
func (s *Set) Match(domain string, entries []mapping.Entry, m *Match) {
	m.Limit, m.Path, m.Shared, m.steps = nil, "", nil, m.steps[:0]
	at := s.domains[domain]
	if at == nil || len(entries) == 0 {
		return
	}
	var shares, values bool
	for i := range entries {
		var next step
		next, m.key = at.next(&entries[i], m.key)
		if next.node == nil {
			return
		}
		m.steps = append(m.steps, next)
		shares = shares || next.pattern != "" && next.node.shared != ""
		// A pattern with a star in its key has the key of the entry in its statistics too.
		values = values || next.node.valueToMetric || next.pattern != "" && !strings.HasPrefix(next.pattern, entries[i].Key+"_")
		at = next.node
	}
	if at.limit == nil {
		return
	}
	m.Limit, m.Path = at.limit, at.limit.Path
	if shares {
		m.share(entries)
	}
	switch {
	case at.limit.detailed:
		m.Path = m.detailedPath(domain, entries)
	case values:
		m.Path = m.valuePath(domain, entries)
	}
}

// next returns the child that an entry selects.
func (n *node) next(e *mapping.Entry, key []byte) (step, []byte) {
	key = append(append(append(key[:0], e.Key...), '_'), e.Value...)
	if child := n.children[string(key)]; child != nil {
		return step{node: child, withValue: true}, key
	}
	for i := range n.patterns {
		if p := &n.patterns[i]; matches(p.parts, key) {
			return step{node: p.child, pattern: p.text, withValue: true}, key
		}
	}
	return step{node: n.children[e.Key]}, key
}

// matches reports whether text begins with the first part, ends with the last, and has
// the others between them in their order.
func matches(parts [][]byte, text []byte) bool {
	first, last := parts[0], parts[len(parts)-1]
	if len(text) < len(first)+len(last) || !bytes.HasPrefix(text, first) || !bytes.HasSuffix(text, last) {
		return false
	}
	text = text[len(first) : len(text)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		at := bytes.Index(text, part)
		if at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return true
}

// share sets Shared.
func (m *Match) share(entries []mapping.Entry) {
	m.Shared = make([]string, len(entries))
	for i := range entries {
		if next := &m.steps[i]; next.pattern != "" && next.node.shared != "" {
			m.Shared[i] = strings.TrimPrefix(next.node.shared, entries[i].Key+"_")
		}
	}
}

// detailedPath returns the domain and the entries with their values, or with patterns
// if these share counters.
func (m *Match) detailedPath(domain string, entries []mapping.Entry) string {
	var b strings.Builder
	b.WriteString(domain)
	for i, e := range entries {
		b.WriteString("." + e.Key)
		switch {
		case m.Shared != nil && m.Shared[i] != "":
			b.WriteString("_" + m.Shared[i])
		case m.Shared == nil || e.Value != "":
			b.WriteString("_" + e.Value)
		}
	}
	return b.String()
}

// valuePath returns the path of the limit with values where value_to_metric asks for
// them.
func (m *Match) valuePath(domain string, entries []mapping.Entry) string {
	var b strings.Builder
	b.WriteString(domain)
	for i, e := range entries {
		next, value := &m.steps[i], ""
		switch {
		case m.Shared != nil && m.Shared[i] != "":
			value = m.Shared[i]
		case next.node.valueToMetric || next.withValue && next.pattern == "":
			value = e.Value
		case next.pattern != "":
			value = strings.TrimPrefix(next.pattern, e.Key+"_")
		}
		b.WriteString("." + e.Key)
		if value != "" {
			b.WriteString("_" + value)
		}
	}
	return b.String()
}
