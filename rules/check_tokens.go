package rules

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// checkTokens connects sources and conditions to the tokens, and opens those that are used.
func (p *parser) checkTokens(set *Set) {
	names := tokenNames{list: make([]string, 0, len(p.tokens)), declared: make(map[string]*jwtDecl, len(p.tokens))}
	for _, d := range p.tokens {
		names.list, names.declared[d.Name] = append(names.list, d.Name), d
		set.Tokens = append(set.Tokens, d.JWT)
		if d.Issuer == "" {
			p.reportf(d.keys, errJWTIssuer, "add ; issuer=TEXT, the exact claim iss of its tokens", "the token %s has no issuer", d.Name)
		}
	}
	for _, d := range p.params {
		for i := range d.Sources {
			if s := &d.Sources[i]; s.Kind == FromJWT {
				if of := p.findToken(s.Name, d.tables[i], &names); of != nil {
					s.jwt, s.place = of.JWT, of.claimPlace(&s.claim)
				}
			}
		}
	}
	p.checkOutcomes(&names)
	for _, d := range p.tokens {
		if d.isUsed && d.Issuer != "" && p.at(0) {
			p.openToken(set, d)
		}
	}
}

// tokenNames are the names of the tokens of a set, in the order of the files, and the tokens by
// their names.
type tokenNames struct {
	list     []string
	declared map[string]*jwtDecl
}

// findToken returns the declaration of a token that something uses. It reports a name without
// one, and returns nil then.
func (p *parser) findToken(name string, at span, names *tokenNames) *jwtDecl {
	d := names.declared[name]
	if d == nil {
		if !p.found.skips(errJWTUnknown) {
			p.found.add(errJWTUnknown, at, Finding{
				Message: fmt.Sprintf("unknown token %q", name), Hint: "declare it in [tokens]", Suggestion: suggest(name, names.list),
			})
		}
		return nil
	}
	d.isUsed = true
	return d
}

// checkOutcomes finds the tokens whose outcomes are in conditions, select a row of a table or are
// forwarded. Files without [tokens] may have parameters with such names.
func (p *parser) checkOutcomes(names *tokenNames) {
	if len(p.tokens) == 0 {
		return
	}
	declared := make(map[string]bool)
	for _, name := range p.declaredNames() {
		declared[name] = names.declared[strings.TrimPrefix(name, tokenPrefix)] == nil
	}
	use := func(param string, at span) {
		if name, isOutcome := strings.CutPrefix(param, tokenPrefix); isOutcome && !declared[param] {
			p.findToken(name, at, names)
		}
	}
	for _, d := range p.eachRule() {
		for i, c := range d.Conditions {
			use(c.Name, d.places[i])
		}
		for _, v := range d.varying {
			use(v.param.text(), v.param)
		}
	}
	for _, d := range p.params {
		for i, by := range d.by {
			use(d.Sources[i].By, by)
		}
	}
	for _, d := range p.forwards {
		use(d.Param, d.param)
	}
}

// claimPlace returns the place of a claim among those of the token, which it adds if it is new.
func (d *jwtDecl) claimPlace(c *Claim) int {
	key := c.Has + "\x00" + strings.Join(c.Path, "\x00") // a readable line has no NUL
	i, known := d.places[key]
	if !known {
		if d.places == nil {
			d.places = make(map[string]int)
		}
		i, d.Claims = len(d.Claims), append(d.Claims, *c)
		d.places[key] = i
	}
	return i
}

// openToken opens the verifier of a token.
func (p *parser) openToken(set *Set, d *jwtDecl) {
	text, err := p.openKeys(set, d)
	if err == nil && p.options.OpenToken == nil {
		err = errNoTokens
	}
	if err == nil {
		var skipped []error
		d.verifier, skipped, err = p.options.OpenToken(d.JWT, text)
		for _, reason := range skipped {
			p.reportf(d.keys, warnKeySkipped, "replace it by a key for signatures: RSA of 2048 to 8192 bits, EC on P-256, P-384 or P-521, or Ed25519", "a key of the token %s is not in use: %v", d.Name, reason)
		}
	}
	if err != nil {
		p.reportf(d.keys, errJWTKeys, keysHint(d, err), "cannot read the keys of the token %s from %q: %v", d.Name, excerpt(withoutUser(d.keys.text())), err)
	}
}

var errNoTokens = errors.New("tokens are not available here")

// openKeys reads the file of keys of a token, if it has one.
func (p *parser) openKeys(set *Set, d *jwtDecl) ([]byte, error) {
	switch {
	case d.From != FromFile:
		return nil, nil
	case p.options.OpenKeys == nil:
		return nil, errNoTokens
	}
	text, err := p.options.OpenKeys(d.name.line.file, d.Keys)
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(text)
	d.keysHash, set.keysAt[place{d.name.line.file, d.Keys}] = hash[:], text
	return text, nil
}

// keysHint returns the hint about keys that cannot be used.
func keysHint(d *jwtDecl, err error) string {
	switch {
	case d.From != FromFile:
		return "allow the address in the settings of the service, or use a file of keys"
	case errors.Is(err, fs.ErrNotExist):
		return fileHint(d.keys, err)
	}
	return "want a JWK set, {\"keys\": [...]}, or public keys or certificates in PEM, with a key for one of the algorithms"
}
