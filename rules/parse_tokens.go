package rules

import (
	"cmp"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// jwtDecl is a line of [tokens].
type jwtDecl struct {
	*JWT
	name, keys span
	places     map[string]int // of the claims, by what names one
}

// The words of a line of [tokens], except from.
const (
	issuerWord     = "issuer"
	audienceWord   = "audience"
	algorithmsWord = "algorithms"
	leewayWord     = "leeway"
	refreshWord    = "refresh"
	typeWord       = "typ"
)

var jwtWords = []string{issuerWord, audienceWord, algorithmsWord, fromWord, leewayWord, refreshWord, typeWord}

// oidcWord precedes an issuer of OpenID Connect.
const oidcWord = "oidc"

// The algorithms of signatures. Those with a secret are accepted only where a line names them.
var (
	publicAlgorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
	secretAlgorithms = []string{"HS256", "HS384", "HS512"}
)

// Bounds of a line of [tokens], in seconds.
const (
	usualLeeway  = 60
	mostLeeway   = 600
	usualRefresh = 600
	leastRefresh = 10
	mostRefresh  = 86400
)

// parseToken reads `name : keys; word=value`.
func (p *parser) parseToken(s span) {
	name, rest, found := s.cut(':')
	first, others, _ := rest.cut(';')
	switch {
	case !found || first.empty():
		p.reportf(s, errJWTName, "want name : KEYS; issuer=TEXT, where KEYS is a path, an address or oidc ISSUER", "the keys of the token are missing")
		return
	case !isTokenName(name.text()):
		p.reportf(name, errJWTName, wantTokenName, "invalid token name %q", name.mention())
		return
	}
	if at, repeated := p.declare("token", name.text(), name); repeated {
		p.reportf(name, errJWTTwice, "remove one of them", "the token %s is already declared at %s", name.text(), at)
		return
	}
	d := &jwtDecl{JWT: &JWT{
		Name: name.text(), Param: tokenPrefix + name.text(), Algorithms: publicAlgorithms, Places: []JWTPlace{{Kind: InBearer}},
		Leeway: usualLeeway * time.Second, Refresh: usualRefresh * time.Second, Pos: name.position(),
	}, name: name, keys: first}
	p.tokens = append(p.tokens, d)
	p.parseKeys(d)
	for _, w := range p.words(nil, others, jwtWords, nil, "") {
		switch {
		case w.value.empty():
		case !p.quoted(w.value):
			p.parseTokenWord(d, w)
		case cmp.Or(w.meant, w.name.text()) == issuerWord:
			d.Issuer = w.value.text() // it is not missing
		}
	}
}

// quoted reports a value with quotes: they would be a part of it.
func (p *parser) quoted(s span) bool {
	at := strings.IndexByte(s.text(), '"')
	if at >= 0 {
		p.reportf(s.tail(at), errJWTValue, "remove the quotes", "values of [tokens] are written without quotes")
	}
	return at >= 0
}

const wantTokenName = "want lower-case letters, digits, _ and -, at most 32"

// isTokenName reports whether text can be the name of a token, and so the end of the name of
// a parameter.
func isTokenName(text string) bool {
	return text != "" && len(text) <= 32 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789_-") == ""
}

// parseKeys reads where the keys come from.
func (p *parser) parseKeys(d *jwtDecl) {
	fields := d.keys.fields()
	d.Keys = d.keys.text()
	switch {
	case fields[0].text() == oidcWord:
		d.From = FromIssuer
		if len(fields) != 2 {
			p.reportf(d.keys, errJWTValue, "want oidc https://ISSUER", "oidc takes one issuer")
			return
		}
		d.Keys = fields[1].text()
		d.Issuer = d.Keys
		p.checkAddress(fields[1])
	case strings.Contains(d.Keys, "://"):
		d.From = FromAddress
		p.checkAddress(d.keys)
	}
}

// checkAddress reports an address that keys cannot be fetched from.
func (p *parser) checkAddress(s span) {
	if p.quoted(s) {
		return
	}
	address, err := url.Parse(s.text())
	switch {
	case err != nil || address.Host == "" || address.User != nil || address.Fragment != "":
		p.reportf(s, errJWTValue, "want https://HOST/PATH", "%q is not an address of keys", excerpt(withoutUser(s.text())))
	case !ProtectsKeys(address):
		p.reportf(s, errJWTValue, "want https://; http:// is accepted for addresses of this machine alone", "%q does not protect the keys on their way", excerpt(withoutUser(s.text())))
	}
}

// ProtectsKeys reports whether keys may come from an address: by https, or by http from this
// machine. For koalagate's own programs, may change.
func ProtectsKeys(address *url.URL) bool {
	if address.Scheme == "http" {
		host := address.Hostname()
		ip, err := netip.ParseAddr(host)
		return host == "localhost" || err == nil && ip.IsLoopback()
	}
	return address.Scheme == "https" && address.Host != ""
}

// parseTokenWord reads the value of one word.
func (p *parser) parseTokenWord(d *jwtDecl, w word) {
	switch text := w.value.text(); cmp.Or(w.meant, w.name.text()) {
	case issuerWord:
		if d.From == FromIssuer {
			p.reportf(w.name, errJWTValue, "remove it", "the issuer is already the one after oidc")
			return
		}
		d.Issuer = text
	case audienceWord:
		d.Audiences = p.tokenList(w)
	case algorithmsWord:
		d.Algorithms = p.tokenList(w)
		known := slices.Concat(publicAlgorithms, secretAlgorithms)
		for _, name := range w.value.split(nil, ',') {
			switch {
			case name.empty():
			case !slices.Contains(known, name.text()):
				p.unknown(name, errJWTValue, "algorithm", known)
			case slices.Contains(secretAlgorithms, name.text()) && d.From != FromFile:
				p.reportf(name, errJWTValue, "use a file of keys, or an algorithm with public keys", "%s needs a secret, and secrets are read from files alone", name.text())
			}
		}
	case fromWord:
		d.Places = p.tokenPlaces(w)
	case leewayWord:
		d.Leeway = time.Duration(p.quantity(leewayWord, w.value, &spanUnits, 0, mostLeeway)) * time.Second
	case refreshWord:
		if d.From == FromFile {
			p.reportf(w.name, warnNoEffect, "remove it", "a file of keys is read when it changes")
		}
		d.Refresh = time.Duration(p.quantity(refreshWord, w.value, &spanUnits, leastRefresh, mostRefresh)) * time.Second
	case typeWord:
		d.Type = strings.TrimPrefix(strings.ToLower(text), "application/")
	}
}

// tokenList reads a list of texts.
func (p *parser) tokenList(w word) (list []string) {
	for _, one := range w.value.split(nil, ',') {
		if one.empty() {
			p.reportf(one, errJWTValue, "remove the comma", "%s has an empty value", w.name.text())
			continue
		}
		list = append(list, one.text())
	}
	return list
}

// tokenPlaces reads the parts of a request that may have the token.
func (p *parser) tokenPlaces(w word) (list []JWTPlace) {
	seen := make(map[JWTPlace]bool)
	for _, one := range w.value.split(nil, ',') {
		fields := one.fields()
		place, ok := JWTPlace{}, false
		if len(fields) > 0 {
			place.Kind, ok = placeNamed(fields[0].text())
		}
		switch {
		case !ok:
			p.reportf(one, errJWTValue, "want bearer, header NAME, cookie NAME or query NAME", "%q is not a place of a token", one.mention())
			continue
		case place.Kind == InBearer && len(fields) != 1, place.Kind != InBearer && len(fields) != 2:
			p.reportf(one, errJWTValue, "want bearer, or one NAME after header, cookie and query", "%q does not name one place", one.mention())
			continue
		case place.Kind != InBearer:
			place.Name = fields[1].text()
			if place.Kind != InQuery && !isToken(place.Name) {
				p.reportf(fields[1], errJWTValue, "want letters, digits and - _ . only", "%q is not a valid %s name", fields[1].mention(), fields[0].text())
				continue
			}
		}
		if place.Kind == InHeader {
			place.Name = strings.ToLower(place.Name)
		}
		if seen[place] {
			p.reportf(one, errJWTValue, "remove one of them", "%q occurs twice", one.mention())
			continue
		}
		seen[place], list = true, append(list, place)
	}
	return list
}

// placeNamed returns the kind of place with a name in rule files.
func placeNamed(name string) (JWTPlaceKind, bool) {
	i := slices.Index(jwtPlaces[:], name)
	return JWTPlaceKind(max(i, 0)), i >= 0
}

// parseClaim reads `NAME PATH` or `NAME PATH has WORD` after jwt.
func (p *parser) parseClaim(source *ParamSource, words []span, end span) bool {
	const want = "want jwt NAME CLAIM, or jwt NAME CLAIM has WORD"
	if len(words) != 2 && len(words) != 4 {
		at := end
		if len(words) > 4 {
			at = words[4]
		}
		p.reportf(at, errSourceWords, want, "jwt takes a token and a claim")
		return false
	}
	source.Name, source.Path = words[0].text(), words[1].text()
	path, ok := claimPath(source.Path)
	if !ok {
		p.reportf(words[1], errSourceWords, "want names of members with dots between them, a name with dots or :// in quotes", "%q is not the path of a claim", words[1].mention())
		return false
	}
	source.claim.Path = path
	if len(words) == 4 {
		if words[2].text() != hasWord {
			p.reportf(words[2], errSourceWords, want, "want has in place of %q", words[2].mention())
			return false
		}
		source.claim.Has = words[3].text()
	}
	return true
}

// claimPath cuts the path of a claim at its dots outside quotes.
func claimPath(text string) (path []string, ok bool) {
	for {
		var name string
		closing := -1
		if text != "" && text[0] == '"' {
			closing = closingQuote(text, 0)
		}
		if closing > 0 {
			name, text = unquoter.Replace(text[1:closing]), text[closing+1:]
		} else {
			end := strings.IndexByte(text, '.')
			if end < 0 {
				end = len(text)
			}
			name, text = text[:end], text[end:]
			if strings.Contains(name, "://") { // an address, whose dots belong to the name
				return nil, false
			}
		}
		path = append(path, name)
		switch {
		case name == "":
			return nil, false
		case text == "":
			return path, true
		case text[0] != '.':
			return nil, false
		}
		text = text[1:]
	}
}
