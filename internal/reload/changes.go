package reload

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/koalagate/koalagate/rules"
)

const (
	// maxNamed is the number of rules, lists and entries of each kind that a report
	// names. Their total numbers are exact.
	maxNamed = 20
	// maxWhat is the length in bytes up to which a changed part of a rule is reported:
	// conditions may have thousands of values.
	maxWhat = 200
)

// Changes report what a reload changed. The lists have at most 20 elements each.
type Changes struct {
	// Added, Removed and Changed are numbers of rules.
	Added   int `json:"added"`
	Removed int `json:"removed"`
	Changed int `json:"changed"`

	AddedRules   []ChangedRule `json:"added_rules,omitempty"`
	RemovedRules []ChangedRule `json:"removed_rules,omitempty"`
	ChangedRules []ChangedRule `json:"changed_rules,omitempty"`

	// EntriesAdded and EntriesRemoved are numbers of entries of all word lists.
	EntriesAdded   int           `json:"list_entries_added"`
	EntriesRemoved int           `json:"list_entries_removed"`
	Lists          []ChangedList `json:"lists,omitempty"`

	// Results are the numbers of changed entries of [result].
	Results []int `json:"results,omitempty"`
	// Tables are the names of changed tables.
	Tables []string `json:"tables,omitempty"`
	// Tokens are the names of tokens with other terms or keys.
	Tokens []string `json:"tokens,omitempty"`
	// Sections names what else changed: order (of rules), params, routes or timezone.
	Sections []string `json:"sections,omitempty"`
}

// ChangedRule is a rule in a report of changes.
type ChangedRule struct {
	Rule int64  `json:"rule"`           // its number
	Name string `json:"name,omitempty"` // "" without name=
	// Parts are the changed parts of a changed rule.
	Parts []string `json:"what,omitempty"`
}

// String returns the rule in a log: its number, its name and what changed.
func (r ChangedRule) String() string {
	text := strconv.FormatInt(r.Rule, 10)
	if r.Name != "" {
		text += " " + r.Name
	}
	if len(r.Parts) > 0 {
		text += " (" + strings.Join(r.Parts, ", ") + ")"
	}
	return text
}

// ChangedList is a word list in a report of changes.
type ChangedList struct {
	Name    string `json:"name"`
	Added   int    `json:"added"`   // entries
	Removed int    `json:"removed"` // entries
}

// ChangesOf reports the changes between two rule sets.
func ChangesOf(all *rules.Changes) *Changes {
	c := &Changes{Added: len(all.Added), Removed: len(all.Removed), Changed: len(all.Changed)}
	for _, r := range first(all.Added) {
		c.AddedRules = append(c.AddedRules, ChangedRule{Rule: r.Return, Name: r.Name})
	}
	for _, r := range first(all.Removed) {
		c.RemovedRules = append(c.RemovedRules, ChangedRule{Rule: r.Return, Name: r.Name})
	}
	for _, r := range first(all.Changed) {
		parts := make([]string, len(r.Parts))
		for i, part := range r.Parts {
			parts[i] = shortened(part)
		}
		c.ChangedRules = append(c.ChangedRules, ChangedRule{Rule: r.After.Return, Name: r.After.Name, Parts: parts})
	}
	for i, l := range all.Lists {
		c.EntriesAdded, c.EntriesRemoved = c.EntriesAdded+l.Added, c.EntriesRemoved+l.Removed
		if i < maxNamed {
			c.Lists = append(c.Lists, ChangedList(l))
		}
	}
	c.Results, c.Tables, c.Tokens = first(all.Results), first(all.Tables), first(all.Tokens)
	for _, s := range []struct {
		changed bool
		name    string
	}{{all.Reordered, "order"}, {all.Params, "params"}, {all.Routes, "routes"}, {all.Forwards, "forward"}, {all.Zone, "timezone"}} {
		if s.changed {
			c.Sections = append(c.Sections, s.name)
		}
	}
	return c
}

// first returns the elements of a list that a report names.
func first[T any](list []T) []T { return list[:min(len(list), maxNamed)] }

// shortened returns at most maxWhat bytes of a text.
func shortened(text string) string {
	if len(text) <= maxWhat {
		return text
	}
	end := maxWhat - len("…")
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// String returns the changes in a log, in one line.
func (c *Changes) String() string {
	var parts []string
	for _, kind := range []struct {
		verb  string
		n     int
		rules []ChangedRule
	}{{"added", c.Added, c.AddedRules}, {"removed", c.Removed, c.RemovedRules}, {"changed", c.Changed, c.ChangedRules}} {
		if kind.n > 0 {
			parts = append(parts, kind.verb+" "+listed(kind.rules, kind.n))
		}
	}
	for _, l := range c.Lists {
		parts = append(parts, fmt.Sprintf("list %s +%d -%d", l.Name, l.Added, l.Removed))
	}
	for _, name := range c.Tables {
		parts = append(parts, "table "+name)
	}
	for _, name := range c.Tokens {
		parts = append(parts, "token "+name)
	}
	for _, number := range c.Results {
		parts = append(parts, fmt.Sprintf("result %d", number))
	}
	if parts = append(parts, c.Sections...); len(parts) == 0 {
		return "at most comments and layout"
	}
	return strings.Join(parts, "; ")
}

// listed returns rules, and how many of n rules are not among them.
func listed(list []ChangedRule, n int) string {
	texts := make([]string, 0, len(list)+1)
	for _, r := range list {
		texts = append(texts, r.String())
	}
	if n > len(list) {
		texts = append(texts, fmt.Sprintf("and %d more", n-len(list)))
	}
	return strings.Join(texts, ", ")
}
