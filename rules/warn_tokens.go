package rules

import (
	"fmt"
	"slices"
)

// warnTokens reports tokens that nothing uses or that are valid for any audience, and
// outcomes of verification that meet no rule.
func (p *parser) warnTokens() {
	for _, d := range p.tokens {
		if !d.isUsed {
			p.reportf(d.name, warnJWTUnused, "remove it, or use a claim (jwt "+d.Name+" sub) or the parameter "+d.Param, "nothing uses the token %s", d.Name)
			continue
		}
		p.warnOutcomesOf(d.JWT)
		if len(d.Audiences) == 0 {
			p.reportf(d.keys, warnAudience, "add audience=NAME, by which the issuer calls this application", "tokens that %s issued for other applications are valid, too", d.Issuer)
		}
		if at, counts := p.countsByClaim(d.JWT); counts {
			if !p.meets(d.JWT, JWTInvalid, (*Rule).refuses) {
				p.reportf(at, warnUnverified, "add a rule that refuses them: ["+d.Param+"=invalid,expired]", "no rule refuses requests whose token %s is invalid, so the rule treats them as requests without one", d.Name)
			}
			if !p.meets(d.JWT, JWTUnavailable, func(*Rule) bool { return true }) {
				p.reportf(at, warnNoKeys, "add a rule for them: ["+d.Param+"=unavailable]", "no rule matches requests whose token %s could not be verified, because there are no keys yet or no processor was free", d.Name)
			}
		}
	}
}

// warnOutcomesOf reports conditions on how the verification of the token ended with values that
// it never has: their rules refuse nobody.
func (p *parser) warnOutcomesOf(of *JWT) {
	for _, d := range p.eachRule() {
		for i, c := range d.Conditions {
			if c.Name != of.Param {
				continue
			}
			for _, text := range c.texts {
				if !slices.Contains(jwtOutcomes[:], text) {
					p.found.add(warnDerived, d.places[i], Finding{
						Message: fmt.Sprintf("%s is never %q", of.Param, text), Hint: "want " + oneOf(jwtOutcomes[:]), Suggestion: suggest(text, jwtOutcomes[:]),
					})
					break
				}
			}
		}
	}
}

// countsByClaim returns the first condition by which a rule counts and whose parameter is a
// claim of the token.
func (p *parser) countsByClaim(of *JWT) (at span, counts bool) {
	claims := make(map[string]bool)
	for _, d := range p.params {
		claims[d.Name] = slices.ContainsFunc(d.Sources, func(s ParamSource) bool { return s.jwt == of })
	}
	for _, d := range p.eachRule() {
		for i, c := range d.Conditions {
			if d.Counts() && claims[c.Name] && c.identifies() {
				return d.places[i], true
			}
		}
	}
	return span{}, false
}

// meets reports whether a rule has a condition on how the verification of the token ended that
// holds for the outcome, and accept accepts it. Rules in shadow have no effect.
func (p *parser) meets(of *JWT, outcome JWTOutcome, accept func(*Rule) bool) bool {
	for _, d := range p.eachRule() {
		if d.Shadow || !accept(d.Rule) {
			continue
		}
		for _, c := range d.Conditions {
			var v value
			if v.read(outcome.String(), c.comparesIntegers(), c.comparesAddresses()); c.Name == of.Param && c.holds(&v, 0) {
				return true
			}
		}
	}
	return false
}

// warnRawTokens reports parameters whose values are tokens or have them: counters, logs and lists
// would have them, too.
func (p *parser) warnRawTokens() {
	for _, d := range p.params {
		for i := range d.Sources {
			s := &d.Sources[i]
			if j := slices.IndexFunc(p.tokens, func(t *jwtDecl) bool { return t.isIn(s) }); j >= 0 {
				p.reportf(d.name, warnRawToken, "write hashed after the source, or read a claim: jwt "+p.tokens[j].Name+" sub",
					"the value of %s (%s) has the token %s, and so have counters, logs and lists", d.Name, s, p.tokens[j].Name)
				break
			}
		}
	}
}

// warnOutcomes reports parameters and constants of routes that have the name of an outcome:
// nothing replaces it.
func (p *parser) warnOutcomes() {
	names := make(map[string]bool, len(p.tokens))
	for _, d := range p.tokens {
		names[d.Param] = true
	}
	const hint = "rename it: the name is for how the verification of the token ended"
	for _, d := range p.params {
		if names[d.Name] {
			p.reportf(d.name, warnNoEffect, hint, "nothing sets the parameter %s but the verification of the token", d.Name)
		}
	}
	for _, e := range p.routes.list {
		for _, c := range e.constants {
			if names[c.Name] {
				p.reportf(e.at, warnNoEffect, hint, "nothing sets the parameter %s but the verification of the token", c.Name)
			}
		}
	}
}
