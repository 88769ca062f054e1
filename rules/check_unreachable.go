package rules

import (
	"cmp"
	"net/netip"
	"slices"
)

// maxCovering is the maximum number of direct rules that a rule is compared with per
// condition, so that the check of n rules takes linear time. Beyond it an unreachable
// rule may go unreported.
const maxCovering = 32

// warnUnreachable reports rules for which a direct rule above decides every request
// that matches them.
func (p *parser) warnUnreachable() {
	above := make(map[string][]*ruleDecl) // direct rules by one of their conditions
	for _, d := range p.eachRule() {
		if first := covering(above, d.Rule); first != nil {
			p.reportf(d.at, warnUnreachable, "move it above that rule, or remove it", "the rule is unreachable: the direct rule %d at %s decides every request that matches it", first.Return, first.at)
			continue
		}
		if !d.Counts() && !d.Shadow && !d.isTimed() {
			for _, key := range coverKeys(d.Rule) {
				above[key] = append(above[key], d)
			}
		}
	}
}

// covering returns a direct rule that covers r, nil if there is none.
func covering(above map[string][]*ruleDecl, r *Rule) *ruleDecl {
	if len(above) == 0 {
		return nil
	}
	byName := r.byName()
	for _, key := range coveredKeys(r) {
		list := above[key]
		for _, d := range list[:min(len(list), maxCovering)] {
			if covers(d.Rule, byName) {
				return d
			}
		}
	}
	return nil
}

// coverKeys returns the keys under which the rules that a direct rule may cover find
// it: the texts of one condition, or else the canonical text of a condition and its
// parameter.
func coverKeys(r *Rule) []string {
	var best []string
	for _, c := range r.Conditions {
		if keys := c.textKeys(); keys != nil {
			return keys
		}
		if best == nil || !forms[c.form].any {
			best = []string{writtenKey(c), anyKey(c)}
		}
	}
	if best == nil {
		return []string{""}
	}
	return best
}

// requiresTexts reports whether the condition holds for its texts and for nothing else.
func (c *Condition) requiresTexts() bool {
	return c.form == formList && !c.Negated && !c.ranged && len(c.texts) > 0 && len(c.addresses) == 0
}

// textKeys returns a key for each text that the condition requires, nil if it may hold
// for anything else.
func (c *Condition) textKeys() []string {
	if !c.requiresTexts() {
		return nil
	}
	keys := make([]string, len(c.texts))
	for i, t := range c.texts {
		keys[i] = textKey(c, t)
	}
	return keys
}

// coveredKeys returns the keys of the direct rules that may cover r.
func coveredKeys(r *Rule) []string {
	keys := []string{""}
	for _, c := range r.Conditions {
		keys = append(keys, writtenKey(c))
		if !c.wantsAbsence() && !forms[c.form].any {
			keys = append(keys, c.Name+"=+", anyKey(c))
		}
		if c.form == formList && !c.Negated && len(c.texts) > 0 {
			keys = append(keys, textKey(c, c.texts[0]))
		}
	}
	return keys
}

func writtenKey(c *Condition) string {
	if c.Joint {
		return c.written[:len(c.written)-len(jointMark)]
	}
	return c.written
}

// textKey and anyKey differ from every canonical text, which contains no NUL.
func textKey(c *Condition, text string) string { return c.Name + "\x00" + text }

// anyKey returns the key of all conditions on a parameter that have no text keys.
func anyKey(c *Condition) string { return c.Name + "\x00\x00" }

// byName returns the conditions of a rule without errors by the names of their parameters, of
// which it has each once. A rule is compared with many others, and may have many conditions.
func (r *Rule) byName() map[string]*Condition {
	conditions := make(map[string]*Condition, len(r.Conditions))
	for _, c := range r.Conditions {
		conditions[c.Name] = c
	}
	return conditions
}

// covers reports whether every request that matches a rule with the conditions b matches a.
func covers(a *Rule, b map[string]*Condition) bool {
	for _, ca := range a.Conditions {
		if cb := b[ca.Name]; cb == nil || !ca.impliedBy(cb) {
			return false
		}
	}
	return true
}

// impliedBy reports whether c holds for every value for which b holds. The result may
// be false in cases where it does.
func (c *Condition) impliedBy(b *Condition) bool {
	switch {
	case writtenKey(c) == writtenKey(b):
		return true
	case forms[c.form].any:
		return !b.wantsAbsence()
	case len(c.dicts) > 0 && len(b.dicts) > 0:
		return c.listsImpliedBy(b)
	case c.isTimed() || !b.isShortList() || c.form == formGlob && !c.globs.isQuickFor(b.texts):
		return false
	}
	for _, t := range b.texts {
		var v value
		v.read(t, true, true)
		if !c.holds(&v, 0) {
			return false
		}
	}
	plain := c.form == formList && !c.Negated
	for _, i := range b.integers {
		if !plain || !encloses(c.integers, i, cmp.Compare) {
			return false
		}
	}
	for _, i := range b.addresses {
		if !plain || !encloses(c.addresses, i, netip.Addr.Compare) {
			return false
		}
	}
	return true
}

// isShortList reports whether the condition holds for a few listed values and ranges only.
func (c *Condition) isShortList() bool {
	return c.form == formList && !c.Negated && len(c.patterns) == 0 && len(c.texts) <= 100
}

// listsImpliedBy is impliedBy for two conditions on word lists.
func (c *Condition) listsImpliedBy(b *Condition) bool {
	switch {
	case c.Negated != b.Negated:
		return false
	case c.Negated:
		return containsAll(b.dicts, c.dicts)
	}
	return containsAll(c.dicts, b.dicts)
}

// containsAll reports whether all has every word list of some.
func containsAll(all, some []*Dict) bool {
	return !slices.ContainsFunc(some, func(d *Dict) bool { return !slices.Contains(all, d) })
}
