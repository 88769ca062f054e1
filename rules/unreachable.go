package rules

import (
	"cmp"
	"net/netip"
)

// maxCovering bounds the direct rules that one rule is compared with on
// account of one condition, so that the check of n rules takes time of order
// n. Beyond it a rule that cannot be reached may go unreported.
const maxCovering = 32

// warnUnreachable reports rules that every request which meets them has left
// by a direct rule above.
func (p *parser) warnUnreachable() {
	above := make(map[string][]*ruleDecl) // direct rules by a condition of theirs
	for _, d := range p.rules {
		if first := covering(above, d.Rule); first != nil {
			p.reportf(d.at, warnUnreachable, "put it above that rule, or take it out", "the rule can never be reached: whatever meets it is decided by the direct rule %d at %s", first.Return, first.at.position())
			continue
		}
		if d.Method == Direct && !d.Shadow {
			for _, key := range coverKeys(d.Rule) {
				above[key] = append(above[key], d)
			}
		}
	}
}

// covering finds a direct rule that covers r.
func covering(above map[string][]*ruleDecl, r *Rule) *ruleDecl {
	if len(above) == 0 {
		return nil
	}
	for _, key := range coveredKeys(r) {
		list := above[key]
		for _, d := range list[:min(len(list), maxCovering)] {
			if covers(d.Rule, r) {
				return d
			}
		}
	}
	return nil
}

// coverKeys are the keys under which a direct rule is found by those that it
// may cover: the texts of one condition, else a condition as it is written and
// its parameter.
func coverKeys(r *Rule) []string {
	var best []string
	for _, c := range r.Conditions {
		if c.form == formList && !c.Negated && !c.ranged && len(c.texts) > 0 && len(c.addresses) == 0 {
			keys := make([]string, len(c.texts))
			for i, t := range c.texts {
				keys[i] = textKey(c, t)
			}
			return keys
		}
		if best == nil || c.form != formPresent {
			best = []string{writtenKey(c), anyKey(c)}
		}
	}
	if best == nil {
		return []string{""}
	}
	return best
}

// coveredKeys are the keys of the direct rules that may cover r.
func coveredKeys(r *Rule) []string {
	keys := []string{""}
	for _, c := range r.Conditions {
		keys = append(keys, writtenKey(c))
		if c.form != formAbsent && c.form != formPresent {
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

// textKey and anyKey differ from every written condition: none holds a NUL.
func textKey(c *Condition, text string) string { return c.Name + "\x00" + text }

// anyKey is the key of all conditions of a parameter that are not found by
// their texts.
func anyKey(c *Condition) string { return c.Name + "\x00\x00" }

// covers tells whether every request that meets b meets a.
func covers(a, b *Rule) bool {
	for _, ca := range a.Conditions {
		implied := false
		for _, cb := range b.Conditions {
			implied = implied || ca.Name == cb.Name && ca.impliedBy(cb)
		}
		if !implied {
			return false
		}
	}
	return true
}

// impliedBy tells whether every value that b holds for, c holds for. It may
// say no where it is so.
func (c *Condition) impliedBy(b *Condition) bool {
	switch {
	case writtenKey(c) == writtenKey(b):
		return true
	case c.form == formPresent:
		return b.form != formAbsent
	case b.form != formList || b.Negated || len(b.patterns) > 0 || len(b.texts) > 100:
		return false
	}
	for _, t := range b.texts {
		var v value
		v.read(t, true, true)
		if !c.holds(&v) {
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
