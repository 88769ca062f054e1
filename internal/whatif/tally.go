package whatif

import (
	"cmp"
	"maps"
	"slices"

	"github.com/koalagate/koalagate/internal/topk"
)

// The default bounds of a Tally. With 1000 identities, a count is too high by at most a
// thousandth of the rule's differences, and no identity with more is missing.
const (
	defaultRules      = 200
	defaultIdentities = 1000
)

// Tally counts calls, or inputs of calls, that two rule sets decided. The zero value is empty.
// A Tally is not safe for concurrent use.
type Tally struct {
	// Rules is the number of rules whose differences are counted by identity; those of
	// further rules are counted by rule. 0 means 200.
	Rules int
	// Identities is the number of identities of a rule that are counted at a time; the least
	// frequent make room for new ones. 0 means 1000.
	Identities int

	totals Totals
	rules  map[ruleKey]*ruleCounts
}

// ruleKey identifies a rule: all imported limits have the number 0.
type ruleKey struct {
	number int64
	name   string
}

// ruleCounts are the differences of one rule.
type ruleCounts struct {
	Differences
	identities *topk.Top[string, Differences] // nil if identities are not counted
}

// Add counts what both rule sets decided. If they differ, name returns the identity that was
// refused, "" to count none.
func (t *Tally) Add(before, now Outcome, name func(refused Outcome) string) {
	t.totals.Requests++
	if before.Refused {
		t.totals.RefusedInForce++
	}
	if now.Refused {
		t.totals.RefusedOnTrial++
	}
	switch {
	case now.Refused && !before.Refused:
		t.differ(Differences{NewlyRefused: 1}, now, name)
	case before.Refused && !now.Refused:
		t.differ(Differences{NewlyAllowed: 1}, before, name)
	}
}

// differ counts a difference because of a rule.
func (t *Tally) differ(d Differences, because Outcome, name func(Outcome) string) {
	t.totals.add(&d)
	var key ruleKey
	if because.Rule != nil {
		key = ruleKey{because.Rule.Return, because.Rule.Name}
	}
	identities := 0
	if len(t.rules) < cmp.Or(t.Rules, defaultRules) {
		identities = cmp.Or(t.Identities, defaultIdentities)
	}
	r := t.rule(key, identities)
	r.add(&d)
	if r.identities == nil {
		return
	}
	if identity := name(because); identity != "" {
		r.count(identity, &d)
	}
}

// rule returns the counts of a rule. New ones have room for a number of identities.
func (t *Tally) rule(key ruleKey, identities int) *ruleCounts {
	r := t.rules[key]
	if r != nil {
		return r
	}
	if t.rules == nil {
		t.rules = make(map[ruleKey]*ruleCounts)
	}
	r = new(ruleCounts)
	if identities > 0 {
		r.identities = topk.New[string, Differences](identities)
	}
	t.rules[key] = r
	return r
}

// count counts differences of an identity.
func (r *ruleCounts) count(identity string, d *Differences) {
	one, _ := r.identities.Take(identity)
	one.Value.add(d) // to those of the identity before, as counts are
	r.identities.Raise(one, d.Sum())
}

// The bounds of a Tally that merges: it counts the identities of a rule with this many
// counters. Beyond twice as many rules, those with the fewest differences are dropped.
const (
	mergedRules      = 1000
	mergedIdentities = 200
)

// Merge adds the findings of another instance, which may be hostile: what the Tally keeps is
// bounded whatever its Rules and Identities are, sums end at the largest number, and texts are
// made printable and shortened. A Tally that merges must not Add.
func (t *Tally) Merge(f *Found) {
	t.totals.Add(&f.Totals)
	for i := range f.Rules {
		t.dropRules()
		r := &f.Rules[i]
		sums := t.rule(ruleKey{r.Rule, Printable(r.Name)}, mergedIdentities)
		sums.add(&r.Differences)
		for j := range r.Identities {
			sums.count(Printable(r.Identities[j].Identity), &r.Identities[j].Differences)
		}
	}
}

// dropRules drops rules with few differences if there is no room for another one.
func (t *Tally) dropRules() {
	if len(t.rules) < 2*mergedRules {
		return
	}
	keys := slices.SortedFunc(maps.Keys(t.rules), func(a, b ruleKey) int { return cmp.Compare(t.rules[b].Sum(), t.rules[a].Sum()) })
	for _, key := range keys[mergedRules:] {
		delete(t.rules, key)
	}
}

// Totals returns the counts so far.
func (t *Tally) Totals() Totals { return t.totals }

// Found returns the counts so far, with at most n identities of a rule.
func (t *Tally) Found(n int) Found {
	f := Found{Totals: t.totals, Rules: make([]Rule, 0, len(t.rules))}
	for key, r := range t.rules {
		one := Rule{Rule: key.number, Name: key.name, Differences: r.Differences, Identities: []Identity{}}
		if r.identities != nil {
			for _, c := range r.identities.Sorted() {
				one.Identities = append(one.Identities, Identity{c.Key, c.Value})
			}
		}
		f.Rules = append(f.Rules, one)
	}
	f.sort(n)
	return f
}

// Shared returns the part of the counts so far that other instances Merge.
func (t *Tally) Shared() Found {
	f := t.Found(sharedIdentities)
	f.Rules = f.Rules[:min(len(f.Rules), sharedRules)]
	for i := sharedNamed; i < len(f.Rules); i++ {
		f.Rules[i].Identities = []Identity{}
	}
	return f
}
