package rules

import (
	"fmt"
	"slices"
	"strings"
)

// isHashed reports whether all values of the parameter are hashed. The gateway's
// configuration may set a parameter with the source gateway as it is.
func (s *supply) isHashed(name string) bool {
	sources := s.sources(name)
	return len(sources) > 0 && !slices.ContainsFunc(sources, func(from ParamSource) bool {
		return !from.Hashed || from.Kind.is().gateway
	})
}

// warnHashed reports conditions on hashed parameters with values that no hash has.
func (p *parser) warnHashed(s *supply) {
	plain := p.plainLists(s)
	for _, d := range p.eachRule() {
		if d.isForOwnParams() {
			continue
		}
		for i, c := range d.Conditions {
			if !s.isHashed(c.Name) {
				continue
			}
			if what, at := c.unhashed(d.places[i], plain); what != "" {
				p.reportf(at, warnHashed, fmt.Sprintf("want the first %d hex digits of the SHA-256 of each value, in lower case", hashLength),
					"%s is hashed, and %s", c.Name, what)
			}
		}
	}
}

// isLower reports whether all values of the parameter are in lower case.
func (s *supply) isLower(name string) bool {
	sources := s.sources(name)
	return len(sources) > 0 && !slices.ContainsFunc(sources, func(from ParamSource) bool {
		return !from.Lower && !from.Kind.is().lower || from.Hashed || from.Kind.is().gateway
	})
}

// warnLower reports conditions on parameters in lower case with values that have capitals.
func (p *parser) warnLower(s *supply) {
	for _, d := range p.eachRule() {
		if d.isForOwnParams() {
			continue
		}
		for i, c := range d.Conditions {
			values := c.written[len(c.Name):]
			if (c.form == formList || c.form == formGlob) && s.isLower(c.Name) && strings.ContainsFunc(values, isCapital) {
				p.reportf(d.places[i], warnCapitals, "write it in lower case, or remove lower",
					"all values of %s are in lower case, and the condition has capitals", c.Name)
			}
		}
	}
}

func isCapital(r rune) bool { return 'A' <= r && r <= 'Z' }

// plainLists returns the word lists that conditions compare with parameters which are not
// hashed. Their words may be meant for those.
func (p *parser) plainLists(s *supply) map[*Dict]bool {
	lists := make(map[*Dict]bool)
	for _, d := range p.eachRule() {
		for _, c := range d.Conditions {
			if !d.isForOwnParams() && s.isHashed(c.Name) {
				continue
			}
			for _, list := range c.dicts {
				lists[list] = true
			}
		}
	}
	return lists
}

// unhashed returns what is wrong with the condition at the span as one on a hashed
// parameter, and where; "" if nothing is. It does not repeat an entry, which may be a
// secret.
func (c *Condition) unhashed(at span, plain map[*Dict]bool) (what string, where span) {
	switch {
	case len(c.dicts) > 0:
		for _, d := range c.dicts {
			switch {
			case d.Len() > 0 && !d.hasHashes:
				return fmt.Sprintf("no entry of the word list %s has the form of a hash", d.name), at
			case d.unhashed > 0 && !plain[d]:
				return fmt.Sprintf("the entry at %s:%d does not have the form of a hash", d.name, d.unhashed), at
			}
		}
	case c.form == formGlob && slices.ContainsFunc(c.globs.patterns, func(pattern string) bool { return !mayMatchHash(pattern) }):
		return "a pattern matches no hash", at
	case c.isTimed():
		return "no hash is a date or a time", at
	case c.comparesIntegers():
		return "no hash is a 64-bit integer", at
	case c.comparesAddresses():
		return "no hash is an address", at
	}
	for _, text := range c.texts {
		if !hasHashForm(text) {
			return fmt.Sprintf("no hash is %q", text), at.value(text)
		}
	}
	return "", at
}
