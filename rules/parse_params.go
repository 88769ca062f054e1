package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// paramDecl is a line of [params].
type paramDecl struct {
	*ParamDecl
	name   span
	tables []span // TABLE.COLUMN or the token, and the parameter of each source, or spans without a line
	by     []span
}

// parseParam reads `name : source else source`.
func (p *parser) parseParam(s span) {
	colons := s.colons()
	if len(colons) == 0 {
		p.reportf(s, errStatement, cmp.Or(halfWidthHint(s.text(), ":"), "want name : source, with blanks around the colon"), "missing colon between blanks in %q", s.mention())
		return
	}
	name, rest := s.slice(0, colons[0]).trim(), s.tail(colons[0]+1).trim()
	if !name.isName() {
		p.reportf(name, errName, wantName, "invalid parameter name %q", name.mention())
		return
	}
	if first, repeated := p.declare("parameter", name.text(), name); repeated {
		p.reportf(name, errParamTwice, "join the sources with else", "the parameter %s is already declared at %s", name.text(), first)
		return
	}
	d := &paramDecl{ParamDecl: &ParamDecl{Name: name.text(), Pos: name.position()}, name: name}
	start := 0
	words := rest.sourceFields()
	for i := 0; i <= len(words); i++ {
		if i < len(words) && words[i].text() != elseWord {
			continue
		}
		at := rest.end()
		if i < len(words) {
			at = words[i]
		}
		if source, ok := p.parseSource(words[start:i], at); ok {
			d.add(source, words[start:i])
			if source.Kind == FromConstant && i < len(words) {
				p.reportf(words[i], errSourceWords, "write the constant last", "the sources after a constant are never used")
			}
		}
		start = i + 1
	}
	p.params = append(p.params, d)
}

// add adds a source that has been read from these words.
func (d *paramDecl) add(source ParamSource, words []span) {
	var table, by span
	switch source.Kind {
	case FromGateway:
		d.GatewayHeader = gatewayHeader(d.Name)
	case FromTable:
		table, by = words[1], words[3]
	case FromJWT:
		table = words[1]
	}
	d.Sources, d.tables, d.by = append(d.Sources, source), append(d.tables, table), append(d.by, by)
}

// sourceFields is fields for a line of [params], where a word in quotes may contain
// blanks.
func (s span) sourceFields() []span {
	var list []span
	for rest := s.trim(); !rest.empty(); {
		end := sourceFieldEnd(rest.text())
		list = append(list, rest.slice(0, end))
		rest = rest.tail(end).trim()
	}
	return list
}

// sourceFieldEnd returns the end of the first word of a text. The path of a claim may have
// several parts in quotes.
func sourceFieldEnd(text string) int {
	for end := 0; ; {
		if end < len(text) && text[end] == '"' {
			if closing := closingQuote(text, end); closing > 0 {
				if end = closing + 1; end == len(text) || text[end] != '.' {
					return end
				}
			}
		}
		length := strings.IndexFunc(text[end:], func(r rune) bool { return r == '.' || unicode.IsSpace(r) })
		if length < 0 {
			return len(text)
		}
		if end += length; text[end] != '.' {
			return end
		}
		end++
	}
}

var headerName = strings.NewReplacer("_", "-", ".", "-", ":", "-")

// gatewayHeader returns the header in which a gateway sends a parameter.
func gatewayHeader(name string) string {
	return "x-koala-param-" + headerName.Replace(strings.ToLower(name))
}

// parseSource reads one source, which ends at end.
func (p *parser) parseSource(words []span, end span) (ParamSource, bool) {
	if len(words) == 0 {
		p.reportf(end, errSource, "want "+oneOf(sourceNames()), "missing source")
		return ParamSource{}, false
	}
	var source ParamSource
	name, words := words[0], words[1:]
	if strings.HasPrefix(name.text(), `"`) {
		return p.parseConstant(name, words)
	}
	kind, isKnown := kindNamed(name.text())
	known := kind.is()
	words = parseModifiers(&source, words, len(known.words))
	if !isKnown || known.quoted {
		p.unknownSource(name)
		return source, false
	}
	source.Kind = kind
	switch source.Kind {
	case FromClientIP:
		return source, p.parsePrefixes(&source, words)
	case FromJWT:
		return source, p.parseClaim(&source, words, end)
	}
	if len(words) != len(known.words) {
		at := end
		if len(words) > len(known.words) {
			at = words[len(known.words)]
		}
		hint := "want " + strings.Join(append([]string{known.name}, known.words...), " ") + ", then lower, hashed or else"
		if at.text() == hashedWord && source.Lower {
			hint = "write lower hashed: the value is hashed in lower case"
		}
		p.reportf(at, errSourceWords, hint, "%s takes %s", known.name, countArguments(len(known.words)))
		return source, false
	}
	if source.Kind == FromTable {
		return source, p.parseTableSource(&source, words)
	}
	if len(words) > 0 {
		source.Name = words[0].text()
	}
	if len(words) > 1 {
		source.Path = words[1].text()
	}
	if known.token && !isToken(source.Name) {
		p.reportf(words[0], errSourceWords, "want letters, digits and - _ . only", "%q is not a valid %s name", words[0].mention(), known.name)
		return source, false
	}
	if known.folded {
		source.Name = strings.ToLower(source.Name)
	}
	return source, true
}

// parseModifiers reads the words after the arguments of a source, and returns the others. A
// source may have an argument with such a name: arguments is their number.
func parseModifiers(source *ParamSource, words []span, arguments int) []span {
	if last := len(words) - 1; last >= 0 && words[last].text() == hashedWord {
		source.Hashed, words = true, words[:last]
	}
	if last := len(words) - 1; last >= arguments && words[last].text() == lowerWord {
		source.Lower, words = true, words[:last]
	}
	return words
}

// parseTableSource reads `TABLE.COLUMN by PARAM`.
func (p *parser) parseTableSource(source *ParamSource, words []span) bool {
	const want = "want table TABLE.COLUMN by PARAM"
	var ok bool
	source.Name, source.Path, ok = cutColumn(words[0].text())
	source.By = words[2].text()
	switch {
	case !ok:
		p.reportf(words[0], errSourceWords, want, "%q does not name a column of a table", words[0].mention())
	case words[1].text() != byWord:
		p.reportf(words[1], errSourceWords, want, "want %s in place of %q", byWord, words[1].mention())
		ok = false
	case !words[2].isName():
		p.reportf(words[2], errName, wantName, "invalid parameter name %q", words[2].mention())
		ok = false
	}
	return ok
}

// parseConstant reads a value in quotes, which no other words follow.
func (p *parser) parseConstant(value span, words []span) (ParamSource, bool) {
	source := ParamSource{Kind: FromConstant}
	if len(words) > 0 {
		p.reportf(words[0], errSourceWords, "write the constant last, without other words", "text after a constant")
		return source, false
	}
	warnings := p.found.count[Warning]
	e, ok := p.parseQuoted(value, &valueQuotes)
	source.Name = e.text
	return source, ok && p.found.count[Warning] == warnings
}

// unknownSource reports an unknown source.
func (p *parser) unknownSource(name span) {
	hint := "want " + oneOf(sourceNames())
	switch {
	case slices.Contains(derivedNames, name.text()):
		hint = "doors derive " + name.text() + " from every request; use it in rules without declaring it"
	case strings.HasPrefix(name.text(), "client-ip/"):
		hint = "want client-ip /24 /64, with a blank before each prefix length"
	}
	p.found.add(errSource, name, Finding{
		Message: fmt.Sprintf("unknown source %q", name.mention()), Hint: hint, Suggestion: suggest(name.text(), sourceNames()),
	})
}

// countArguments returns the number of a source's arguments, 0 … 3, in words.
func countArguments(n int) string {
	switch n {
	case 0:
		return "no argument"
	case 1:
		return "one argument"
	case 2:
		return "two arguments"
	}
	return "three words"
}

// parsePrefixes reads the arguments of client-ip: none, or the lengths of an IPv4
// and an IPv6 prefix.
func (p *parser) parsePrefixes(source *ParamSource, words []span) bool {
	source.V4, source.V6 = -1, -1
	if len(words) == 0 {
		return true
	}
	if len(words) != 2 {
		p.reportf(words[min(2, len(words)-1)], errSourceWords, "want none, or one for IPv4 and one for IPv6, as in client-ip /24 /64", "client-ip takes two prefix lengths or none")
		return false
	}
	for i, family := range []struct {
		to   *int
		bits int
		name string
	}{{&source.V4, 32, "IPv4"}, {&source.V6, 128, "IPv6"}} {
		text, slash := strings.CutPrefix(words[i].text(), "/")
		n, err := strconv.ParseUint(text, 10, 8)
		if !slash || err != nil || int(n) > family.bits {
			p.reportf(words[i], errPrefix, fmt.Sprintf("want /0 … /%d for %s", family.bits, family.name), "invalid prefix length %q", words[i].mention())
			return false
		}
		*family.to = int(n)
	}
	return true
}

// isToken reports whether text is an HTTP token: the name of a header or a cookie,
// or a method.
func isToken(text string) bool {
	for i := range len(text) {
		b := text[i]
		letter := 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9'
		if !letter && strings.IndexByte("!#$%&'*+-.^_`|~", b) < 0 {
			return false
		}
	}
	return text != ""
}
