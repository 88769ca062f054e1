package trial

import (
	"cmp"
	"slices"
)

// The numbers of rules, and of identities of a rule, that a Merger keeps. Beyond twice as
// many, those with the fewest differences are dropped.
const (
	mergedRules      = 1000
	mergedIdentities = 100
)

// Merger adds up the findings of several instances. Their reports may be hostile: what it
// keeps is bounded, sums end at the largest number, and texts are made printable and
// shortened. The zero value has none.
type Merger struct {
	totals Totals
	rules  map[ruleKey]*ruleCounts
}

// Merge returns the findings of several instances.
func Merge(list []Found) Found {
	var m Merger
	for i := range list {
		m.Add(&list[i])
	}
	return m.Found()
}

// Add adds the findings of an instance.
func (m *Merger) Add(f *Found) {
	if m.rules == nil {
		m.rules = make(map[ruleKey]*ruleCounts)
	}
	m.totals.Add(&f.Totals)
	for i := range f.Rules {
		r := &f.Rules[i]
		key := ruleKey{r.Rule, printable(r.Name)}
		merged := m.rules[key]
		if merged == nil {
			merged = &ruleCounts{identities: make(map[string]*Differences)}
			m.rules[key] = merged
			keepMost(m.rules, mergedRules, func(r *ruleCounts) int64 { return r.Sum() })
		}
		merged.merge(r)
	}
}

// merge adds the differences that another instance counted.
func (r *ruleCounts) merge(other *Rule) {
	r.add(&other.Differences)
	for i := range other.Identities {
		one := &other.Identities[i]
		name := printable(one.Identity)
		if r.identities[name] == nil {
			r.identities[name] = new(Differences)
		}
		r.identities[name].add(&one.Differences)
		keepMost(r.identities, mergedIdentities, func(d *Differences) int64 { return d.Sum() })
	}
}

// keepMost drops the elements with the smallest numbers from a map that has more than twice
// as many as it should.
func keepMost[K comparable, V any](all map[K]V, most int, number func(V) int64) {
	if len(all) <= 2*most {
		return
	}
	type element struct {
		key    K
		number int64
	}
	list := make([]element, 0, len(all))
	for key, value := range all {
		list = append(list, element{key, number(value)})
	}
	slices.SortFunc(list, func(a, b element) int { return cmp.Compare(b.number, a.number) })
	for _, one := range list[most:] {
		delete(all, one.key)
	}
}

// Found returns the sums.
func (m *Merger) Found() Found {
	c := counts{totals: m.totals, rules: m.rules}
	return c.report(shownIdentities)
}
