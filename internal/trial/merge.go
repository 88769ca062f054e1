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
	rules  map[ruleKey]*merged
}

// merged are the differences of one rule.
type merged struct {
	Differences
	identities map[string]*Differences
}

// Add adds the findings of an instance.
func (m *Merger) Add(f *Found) {
	if m.rules == nil {
		m.rules = make(map[ruleKey]*merged)
	}
	m.totals.Add(&f.Totals)
	for i := range f.Rules {
		r := &f.Rules[i]
		key := ruleKey{r.Rule, printable(r.Name)}
		sums := m.rules[key]
		if sums == nil {
			sums = &merged{identities: make(map[string]*Differences)}
			m.rules[key] = sums
			keepMost(m.rules, mergedRules, func(r *merged) int64 { return r.Sum() })
		}
		sums.add(r)
	}
}

// add adds the differences that an instance counted.
func (r *merged) add(other *Rule) {
	r.Differences.add(&other.Differences)
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
	f := Found{Totals: m.totals, Rules: make([]Rule, 0, len(m.rules))}
	for key, r := range m.rules {
		one := Rule{Rule: key.number, Name: key.name, Differences: r.Differences, Identities: make([]Identity, 0, len(r.identities))}
		for name, d := range r.identities {
			one.Identities = append(one.Identities, Identity{name, *d})
		}
		f.Rules = append(f.Rules, one)
	}
	f.sort(shownIdentities)
	return f
}
