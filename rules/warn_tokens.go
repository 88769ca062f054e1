package rules

import (
	"fmt"
	"slices"
)

// warnTokens reports tokens that nothing uses or that are valid for any audience, and
// outcomes of verification that meet no rule.
func (p *parser) warnTokens() {
	uses := p.tokenUses()
	for _, d := range p.tokens {
		if !d.isUsed {
			p.reportf(d.name, warnJWTUnused, "remove it, or use a claim (jwt "+d.Name+" sub) or the parameter "+d.Param, "nothing uses the token %s", d.Name)
			continue
		}
		p.warnOutcomesOf(d.JWT, uses.outcomes[d.Param])
		if len(d.Audiences) == 0 {
			p.reportf(d.keys, warnAudience, "add audience=NAME, by which the issuer calls this application", "tokens that %s issued for other applications are valid, too", d.Issuer)
		}
		if at, counts := uses.counted[d.JWT]; counts {
			if !meets(uses.outcomes[d.Param], JWTInvalid, (*Rule).refuses) {
				p.reportf(at, warnUnverified, "add a rule that refuses them: ["+d.Param+"=invalid,expired]", "no rule refuses requests whose token %s is invalid, so the rule treats them as requests without one", d.Name)
			}
			if !meets(uses.outcomes[d.Param], JWTUnavailable, func(*Rule) bool { return true }) {
				p.reportf(at, warnNoKeys, "add a rule for them: ["+d.Param+"=unavailable]", "no rule matches requests whose token %s could not be verified, because there are no keys yet or no processor was free", d.Name)
			}
		}
	}
}

// tokenUses are the conditions of all rules that concern tokens, found in one pass.
type tokenUses struct {
	outcomes map[string][]outcomeUse // by the parameter with the outcome, in the order of the rules
	counted  map[*JWT]span           // the first condition by which a rule counts and whose parameter is a claim
}

// outcomeUse is a condition on how the verification of a token ended.
type outcomeUse struct {
	rule      *Rule
	condition *Condition
	at        span
}

func (p *parser) tokenUses() *tokenUses {
	uses := &tokenUses{outcomes: make(map[string][]outcomeUse), counted: make(map[*JWT]span)}
	if len(p.tokens) == 0 {
		return uses
	}
	claims := make(map[string][]ParamSource) // by the parameters that no counting rule has had yet
	for _, d := range p.params {
		claims[d.Name] = d.Sources
	}
	for _, d := range p.tokens {
		uses.outcomes[d.Param] = nil
	}
	for _, d := range p.eachRule() {
		for i, c := range d.Conditions {
			if _, isOutcome := uses.outcomes[c.Name]; isOutcome {
				uses.outcomes[c.Name] = append(uses.outcomes[c.Name], outcomeUse{d.Rule, c, d.places[i]})
			}
			if !d.Counts() || !c.identifies() {
				continue
			}
			for _, s := range claims[c.Name] {
				if _, known := uses.counted[s.jwt]; s.jwt != nil && !known {
					uses.counted[s.jwt] = d.places[i]
				}
			}
			delete(claims, c.Name)
		}
	}
	return uses
}

// warnOutcomesOf reports conditions on how the verification of the token ended with values that
// it never has: their rules refuse nobody.
func (p *parser) warnOutcomesOf(of *JWT, uses []outcomeUse) {
	for _, use := range uses {
		for _, text := range use.condition.texts {
			if !slices.Contains(jwtOutcomes[:], text) {
				p.found.add(warnDerived, use.at, Finding{
					Message: fmt.Sprintf("%s is never %q", of.Param, text), Hint: "want " + oneOf(jwtOutcomes[:]), Suggestion: suggest(text, jwtOutcomes[:]),
				})
				break
			}
		}
	}
}

// meets reports whether a rule has a condition on how the verification of the token ended that
// holds for the outcome, and accept accepts it. Rules in shadow have no effect.
func meets(uses []outcomeUse, outcome JWTOutcome, accept func(*Rule) bool) bool {
	return slices.ContainsFunc(uses, func(use outcomeUse) bool {
		if use.rule.Shadow || !accept(use.rule) {
			return false
		}
		var v value
		v.read(outcome.String(), use.condition.comparesIntegers(), use.condition.comparesAddresses())
		return use.condition.holds(&v, 0)
	})
}

// warnRawTokens reports parameters whose values are tokens or have them: counters, logs and lists
// would have them, too.
func (p *parser) warnRawTokens() {
	first := make(map[clientKey]string) // the first token that a part of a request may have
	for _, d := range p.tokens {
		for _, place := range d.Places {
			for _, part := range place.parts() {
				if _, known := first[part]; !known {
					first[part] = d.Name
				}
			}
		}
	}
	for _, d := range p.params {
		for i := range d.Sources {
			s := &d.Sources[i]
			if token, isRaw := first[clientKey{s.Kind, s.Name}]; isRaw && !s.Hashed {
				p.reportf(d.name, warnRawToken, "write hashed after the source, or read a claim: jwt "+token+" sub",
					"the value of %s (%s) has the token %s, and so have counters, logs and lists", d.Name, s, token)
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
