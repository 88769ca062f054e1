package rules

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"
)

// patternSegment is one segment of a route's path.
type patternSegment struct {
	literal  string // decoded; the segment behind a slash at the end is empty
	variable string // {x}, and {x...} in a subtree
	subtree  bool   // this segment and all that follow
}

// exactEnd closes a pattern that ends in a slash and is no subtree.
const exactEnd = "{$}"

// parseRoute reads `METHOD /path/{variable} : name=value; name=value`.
func (p *parser) parseRoute(s span) {
	colons := s.colons()
	if len(colons) == 0 {
		p.reportf(s, errStatement, cmp.Or(halfWidthHint(s.text(), ":"), "want METHOD /path : name=value, with blanks around the colon"), "%q has no colon between blanks", s.mention())
		return
	}
	at := colons[len(colons)-1]
	words, rest := s.slice(0, at).fields(), s.tail(at+1).trim()
	if len(words) != 2 {
		p.reportf(s.slice(0, at).trim(), errStatement, "want METHOD /path : name=value; * stands for any method", "a route begins with a method and a path")
		return
	}
	e := &route{at: s}
	methodOK := p.parseRouteMethod(e, words[0])
	pattern, patternOK := p.parsePattern(words[1])
	if !p.parseConstants(e, pattern, rest) || !methodOK || !patternOK {
		return
	}
	if equal := p.routes.add(e, pattern); equal != nil {
		p.reportf(s, errRouteTwice, "take one out", "this route is equal to the one at %s", equal.at.position())
	}
}

func (p *parser) parseRouteMethod(e *route, s span) bool {
	e.method = s.text()
	switch {
	case e.method == anyMethod:
	case !isToken(e.method) || strings.ToUpper(e.method) != e.method:
		p.found.add(errRouteMethod, s, Finding{
			Message: fmt.Sprintf("%q is no method", s.mention()), Hint: "want a method in capitals, as GET, or * for any",
			Suggestion: suggest(e.method, []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"}),
		})
		return false
	case e.method == "HEAD":
		p.reportf(s, warnHead, "write GET", "HEAD counts as GET, and so does this route")
		e.method = "GET"
	}
	return true
}

// parsePattern reads the path of a route.
func (p *parser) parsePattern(s span) ([]patternSegment, bool) {
	text := s.text()
	if text[0] != '/' {
		p.reportf(s, errPattern, "begin it with a slash", "%q is no path", s.mention())
		return nil, false
	}
	var pattern []patternSegment
	names := make(map[string]bool)
	for start := 1; ; {
		end := strings.IndexByte(text[start:], '/')
		last := end < 0
		if last {
			end = len(text) - start
		}
		segment, ok := p.parseSegment(s.slice(start, start+end), last)
		if !ok {
			return nil, false
		}
		if segment.variable != "" && names[segment.variable] {
			p.reportf(s.slice(start, start+end), errRouteName, "give each variable a name of its own", "the variable %s stands twice", segment.variable)
			return nil, false
		}
		names[segment.variable] = true
		pattern = append(pattern, segment)
		if last {
			return pattern, true
		}
		start += end + 1
	}
}

// parseSegment reads one segment of a pattern.
func (p *parser) parseSegment(s span, last bool) (patternSegment, bool) {
	text := s.text()
	fault := func(hint, format string, args ...any) (patternSegment, bool) {
		p.reportf(s, errPattern, hint, format, args...)
		return patternSegment{}, false
	}
	switch {
	case text == "" && last:
		return patternSegment{subtree: true}, true
	case text == exactEnd && last:
		return patternSegment{}, true
	case text == "":
		return fault("take the slash out: empty segments of a request's path are gone before routes are compared", "an empty segment never matches")
	case text == "." || text == "..":
		return fault("write the path that it leads to: dot segments of a request's path are resolved before routes are compared", "%q never matches", text)
	case strings.ContainsAny(text, "?"):
		return fault("take the query out: a route is a path alone, and [params] reads the query", "%q holds a question mark", s.mention())
	case strings.ContainsAny(text, "{}"):
		return p.parseVariable(s, last)
	}
	literal, err := url.PathUnescape(text)
	if err != nil || strings.ContainsRune(literal, 0) {
		return fault("write a percent sign as %25", "%q holds a broken escape", s.mention())
	}
	switch name, colon := strings.CutPrefix(text, ":"); {
	case text == "*":
		p.reportf(s, warnLooksLike, "write {x} if any segment is meant, {x...} for the rest of the path, and %2A for the sign", "%q is taken as it stands", text)
	case colon:
		p.reportf(s, warnLooksLike, "write {"+cmp.Or(name, "x")+"} if any segment is meant, and %3A for the sign", "%q is taken as it stands", s.mention())
	}
	return patternSegment{literal: literal}, true
}

// parseVariable reads `{x}` or `{x...}`.
func (p *parser) parseVariable(s span, last bool) (patternSegment, bool) {
	text := s.text()
	if text[0] != '{' || text[len(text)-1] != '}' {
		p.reportf(s, errPattern, "a variable is a whole segment, as in /videos/{id}; a brace of the path is %7B or %7D", "%q is no segment", s.mention())
		return patternSegment{}, false
	}
	name, rest := strings.CutSuffix(text[1:len(text)-1], "...")
	switch {
	case !s.slice(1, 1+len(name)).isName():
		p.reportf(s, errName, wantName, "%q is no name of a variable", name)
	case rest && !last:
		p.reportf(s, errPattern, "put it at the end, or take the dots out", "%s takes the rest of the path", text)
	default:
		return patternSegment{variable: name, subtree: rest}, true
	}
	return patternSegment{}, false
}

// parseConstants reads `name=value; name=value`, which may be empty.
func (p *parser) parseConstants(e *route, pattern []patternSegment, s span) bool {
	names := make(map[string]string)
	for _, segment := range pattern {
		names[segment.variable] = "a variable of the path"
	}
	faultless := true
	for _, piece := range s.statements(nil) {
		if piece.empty() {
			p.reportf(piece, warnNoEffect, "take it out", "a semicolon too many")
			continue
		}
		name, value, found := piece.cut('=')
		switch {
		case !found || value.empty():
			p.reportf(piece, errConstant, "want name=value", "%q gives no value", piece.mention())
		case !name.isName():
			p.reportf(name, errName, wantName, "%q is no name of a parameter", name.mention())
		case names[name.text()] != "":
			p.reportf(name, errRouteName, "give it another name, or take it out", "%s is %s already", name.text(), names[name.text()])
		default:
			text, ok := p.constant(value)
			if ok {
				names[name.text()] = "a constant of this route"
				if strings.TrimSpace(text) != "" { // else it has no effect, which was said
					e.constants = append(e.constants, Param{name.text(), text})
				}
				continue
			}
		}
		faultless = false
	}
	return faultless
}

// constant is the value of a constant, which may be quoted.
func (p *parser) constant(s span) (string, bool) {
	if s.text()[0] != '"' {
		return s.text(), true
	}
	e, ok := p.parseQuoted(s)
	return e.text, ok
}
