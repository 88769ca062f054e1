package rules

import "slices"

// guard is a rule that may limit or refuse requests that another rule misses.
type guard struct {
	*Rule
	needs   []*Condition // its conditions, without conditions that hold for every request
	refuses bool         // it refuses, and not only for one invented value at a time
}

// guards are the guards of a set, by a condition that they need.
type guards struct {
	supply *supply
	pauses *pauses
	rules  []*ruleDecl
	byKey  map[string][]*guard // nil until the first look-up
	absent map[string][]string // the results of absence
	last   guarded
}

// guarded is the rule of the last look-up: there is one for each of its conditions.
type guarded struct {
	rule   *Rule
	keys   []string // coveredKeys
	byName map[string]*Condition
}

// index finds the guards among the rules, and files each under the key that the fewest
// guards share.
func (g *guards) index() {
	var list []*guard
	shared := make(map[string]int)
	for i, d := range g.rules {
		if !g.pauses.at(i) {
			break
		}
		q := g.guardOf(d.Rule)
		if q == nil {
			continue
		}
		list = append(list, q)
		for _, need := range q.needs {
			for _, key := range guardKeys(need) {
				shared[key]++
			}
		}
	}
	g.byKey, g.absent = make(map[string][]*guard, len(shared)), make(map[string][]string)
	for _, q := range list {
		best, least := []string{""}, 0
		for _, need := range q.needs {
			most := 0
			keys := guardKeys(need)
			for _, key := range keys {
				most = max(most, shared[key])
			}
			if len(keys) > 0 && (least == 0 || most < least) {
				best, least = keys, most
			}
		}
		for _, key := range best {
			g.byKey[key] = append(g.byKey[key], q)
		}
	}
}

// guardOf returns the rule as a guard, nil if it is none.
func (g *guards) guardOf(r *Rule) *guard {
	q := &guard{Rule: r, refuses: r.refuses() && !slices.ContainsFunc(r.Conditions, func(c *Condition) bool {
		return r.Counts() && c.identifies() && g.supply.chosenSource(c) != nil
	})}
	if !r.Enforced() || !q.refuses && !slices.ContainsFunc(r.Conditions, func(c *Condition) bool { return c.wantsAbsence() }) {
		return nil
	}
	for _, c := range r.Conditions {
		if !c.isOpen() || !g.supply.isAlwaysPresent(c.Name) {
			q.needs = append(q.needs, c)
		}
	}
	return q
}

// refuses reports whether the rule refuses requests.
func (r *Rule) refuses() bool { return r.Result.Verdict() != Allow }

// guardKeys returns the keys under which rules find a guard with this need, as coverKeys
// does for direct rules. A need that holds for any value has none, because a value that a
// client invents satisfies it.
func guardKeys(need *Condition) []string {
	if keys := need.textKeys(); keys != nil {
		return keys
	}
	if need.isOpen() {
		return nil
	}
	return []string{writtenKey(need), anyKey(need)}
}

// coverOmission reports whether a guard is for the requests of r without the parameter
// name, and accept accepts it.
func (g *guards) coverOmission(r *Rule, name string, accept func(*guard) bool) bool {
	same := func(other string) bool { return g.supply.isTwin(name, other) }
	if g.byKey == nil {
		g.index()
	}
	keys := g.absence(name)
	if len(keys) > maxCovering { // the rest is trusted
		return true
	}
	return g.cover(r, keys, accept, func(need *Condition) bool {
		return need.wantsAbsence() && same(need.Name)
	}, func(c *Condition) bool { return !same(c.Name) })
}

// absence returns the keys of the guards that need the absence of the parameter name or of a twin,
// of which one may have very many, once for each name.
func (g *guards) absence(name string) []string {
	keys, known := g.absent[name]
	if !known {
		for _, of := range append([]string{name}, g.supply.twins[name]...) {
			if key := of + "!=+"; g.byKey[key] != nil {
				keys = append(keys, key)
			}
		}
		g.absent[name] = keys
	}
	return keys
}

// coverInvention reports whether a guard limits or refuses the requests of r whatever
// the value of the parameter name is.
func (g *guards) coverInvention(r *Rule, name string) bool {
	return g.cover(r, nil, func(q *guard) bool { return q.refuses }, func(need *Condition) bool {
		return need.isOpen() && g.supply.isTwin(name, need.Name)
	}, func(*Condition) bool { return true })
}

// namesAbsent reports whether the rule requires that a parameter is absent, or another
// one with the same source.
func (g *guards) namesAbsent(r *Rule, name string) bool {
	return slices.ContainsFunc(r.Conditions, func(c *Condition) bool { return c.wantsAbsence() && g.supply.isTwin(name, c.Name) })
}

// cover reports whether a guard applies to all requests of r: each of its needs is
// given, or implied by a condition of r that stays. It finds guards by the conditions of
// r and by keys. Of many guards with one key it compares the first and trusts the rest,
// so that the check of n rules takes linear time without false warnings.
func (g *guards) cover(r *Rule, keys []string, accept func(*guard) bool, given, stays func(*Condition) bool) bool {
	if g.byKey == nil {
		g.index()
	}
	if g.last.rule != r {
		g.last = guarded{r, coveredKeys(r), r.byName()}
	}
	applies := func(key string) bool {
		for i, q := range g.byKey[key] {
			if i == maxCovering || q.Rule != r && accept(q) && q.appliesTo(g.last.byName, given, stays) {
				return true
			}
		}
		return false
	}
	return slices.ContainsFunc(g.last.keys, applies) || slices.ContainsFunc(keys, applies)
}

// appliesTo is cover for one guard and the conditions of the rule.
func (q *guard) appliesTo(conditions map[string]*Condition, given, stays func(*Condition) bool) bool {
	return !slices.ContainsFunc(q.needs, func(need *Condition) bool {
		c := conditions[need.Name]
		return !given(need) && (c == nil || !stays(c) || !need.impliedBy(c))
	})
}
