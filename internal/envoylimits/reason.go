package envoylimits

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/koalagate/koalagate/internal/mapping"
)

// Text returns the limit in words.
func (l *Limit) Text() string {
	text := "unlimited"
	if !l.Unlimited {
		text = fmt.Sprintf("at most %d per %s", l.Requests, strings.ToLower(l.Unit.String()))
	}
	if l.Shadow {
		text += ", in shadow mode"
	}
	if l.Quota {
		text += ", as a quota"
	}
	if len(l.Replaces) > 0 {
		text += ", in place of " + strings.Join(l.Replaces, ", ")
	}
	return text
}

// Reason returns why no limit applies to a descriptor. m is the result of Match for it,
// without a limit.
func (s *Set) Reason(domain string, entries []mapping.Entry, m *Match) string {
	at := s.domains[domain]
	switch {
	case at == nil:
		return fmt.Sprintf("the domain %q has no limits%s", domain, choices(slices.Sorted(maps.Keys(s.domains))))
	case len(entries) == 0:
		return "the descriptor has no entries"
	}
	names := []string{domain}
	for i := range m.steps {
		at = m.steps[i].node
		names = append(names, at.key())
	}
	path := strings.Join(names, ".")
	if next := len(m.steps); next < len(entries) {
		e := entries[next]
		return fmt.Sprintf("nothing below %q matches %q%s", path, e.Key+"="+e.Value, choices(slices.Sorted(maps.Keys(at.children))))
	}
	if len(at.children) > 0 {
		return fmt.Sprintf("%q itself has no limit, and limits below it need another entry%s", path, choices(slices.Sorted(maps.Keys(at.children))))
	}
	return fmt.Sprintf("%q has no limit", path)
}

// key returns the name of a node among its siblings.
func (n *node) key() string {
	if n.source.Value == "" {
		return n.source.Key
	}
	return n.source.Key + "_" + n.source.Value
}

// choices returns the first of a list of names in parentheses, "" for none.
func choices(names []string) string {
	const most = 8
	if len(names) == 0 {
		return ""
	}
	more := ""
	if len(names) > most {
		more = fmt.Sprintf(" and %d more", len(names)-most)
		names = names[:most]
	}
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = fmt.Sprintf("%q", name)
	}
	return " (there are " + strings.Join(quoted, ", ") + more + ")"
}
