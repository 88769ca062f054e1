package trial

import (
	"cmp"
	"slices"

	"github.com/koalagate/koalagate/internal/topk"
)

const (
	// maxRules is the number of rules whose differences are counted by identity. Those
	// of further rules are counted by rule.
	maxRules = 200
	// maxIdentities is the number of identities of a rule that are counted at a time: a count
	// is too high by at most a thousandth of the rule's differences, and no identity with more
	// is missing.
	maxIdentities = 1000
	// shownIdentities is the number of identities of a rule in a report.
	shownIdentities = 10
	// An instance shares this number of rules, and identities of the first of them, with
	// the fleet, in less than 256 kB.
	sharedRules, sharedNamed, sharedIdentities = 100, 20, 20
)

// counts are the differences that a trial has counted.
type counts struct {
	totals Totals
	rules  map[ruleKey]*ruleCounts
}

type ruleKey struct {
	number int64
	name   string
}

// ruleCounts are the differences of one rule.
type ruleCounts struct {
	Differences
	identities *topk.Top[string, Differences] // nil if identities are not counted
}

// add counts a call that both rule sets decided. name returns the identity of a refusal.
func (c *counts) add(before, now *outcome, name func(*outcome) string) {
	c.totals.Requests++
	if before.refused {
		c.totals.RefusedInForce++
	}
	if now.refused {
		c.totals.RefusedOnTrial++
	}
	switch {
	case now.refused && !before.refused:
		c.differ(Differences{NewlyRefused: 1}, now, name)
	case before.refused && !now.refused:
		c.differ(Differences{NewlyAllowed: 1}, before, name)
	}
}

// differ counts a difference because of a rule.
func (c *counts) differ(d Differences, because *outcome, name func(*outcome) string) {
	c.totals.add(&d)
	key := ruleKey{}
	if because.rule != nil {
		key = ruleKey{because.rule.Return, because.rule.Name}
	}
	r := c.rules[key]
	if r == nil {
		if c.rules == nil {
			c.rules = make(map[ruleKey]*ruleCounts)
		}
		r = new(ruleCounts)
		if len(c.rules) < maxRules {
			r.identities = topk.New[string, Differences](maxIdentities)
		}
		c.rules[key] = r
	}
	r.add(&d)
	if r.identities == nil {
		return
	}
	if identity := name(because); identity != "" {
		one, _ := r.identities.Take(identity)
		one.Value.add(&d) // to those of the identity before, as counts are
		r.identities.Raise(one, d.Sum())
	}
}

// report returns the counts, with at most this number of identities of a rule.
func (c *counts) report(shown int) Found {
	f := Found{Totals: c.totals, Rules: make([]Rule, 0, len(c.rules))}
	for key, r := range c.rules {
		one := Rule{Rule: key.number, Name: key.name, Differences: r.Differences, Identities: []Identity{}}
		if r.identities != nil {
			for _, c := range r.identities.Sorted() {
				one.Identities = append(one.Identities, Identity{c.Key, c.Value})
			}
		}
		f.Rules = append(f.Rules, one)
	}
	f.sort(shown)
	return f
}

// sort sorts rules and identities, those with the most differences first, and drops
// identities beyond a number.
func (f *Found) sort(shown int) {
	for i := range f.Rules {
		r := &f.Rules[i]
		slices.SortFunc(r.Identities, func(a, b Identity) int {
			return cmp.Or(cmp.Compare(b.Sum(), a.Sum()), cmp.Compare(a.Identity, b.Identity))
		})
		r.Identities = r.Identities[:min(len(r.Identities), shown)]
	}
	slices.SortFunc(f.Rules, func(a, b Rule) int {
		return cmp.Or(cmp.Compare(b.Sum(), a.Sum()), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Name, b.Name))
	})
}
