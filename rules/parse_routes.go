package rules

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"
)

// exactEnd ends a pattern with a trailing slash that is not a subtree.
const exactEnd = "{$}"

// parseRoute reads `METHOD /path/{variable} : name=value; name=value`.
func (p *parser) parseRoute(s span) {
	colons := s.colons()
	if len(colons) == 0 {
		p.reportf(s, errStatement, cmp.Or(halfWidthHint(s.text(), ":"), "want METHOD /path : name=value, with blanks around the colon"), "missing colon between blanks in %q", s.mention())
		return
	}
	at := colons[len(colons)-1]
	words, rest := s.slice(0, at).fields(), s.tail(at+1).trim()
	if len(words) != 2 {
		p.reportf(s.slice(0, at).trim(), errStatement, "want METHOD /path : name=value, with * for any method", "a route must begin with a method and a path")
		return
	}
	e := &route{at: s}
	methodOK := p.parseRouteMethod(e, words[0])
	pattern, patternOK := p.parsePattern(words[1])
	if !p.parseConstants(e, pattern, rest) || !methodOK || !patternOK {
		return
	}
	if equal := p.routes.add(e, pattern); equal != nil {
		p.reportf(s, errRouteTwice, "remove one of them", "this route is equal to the route at %s", equal.at)
	}
}

func (p *parser) parseRouteMethod(e *route, s span) bool {
	e.method = s.text()
	switch {
	case e.method == anyMethod:
	case !isToken(e.method) || strings.ToUpper(e.method) != e.method:
		p.found.add(errRouteMethod, s, Finding{
			Message: fmt.Sprintf("invalid method %q", s.mention()), Hint: "want a method in upper case, such as GET, or * for any method",
			Suggestion: suggest(e.method, []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"}),
		})
		return false
	case e.method == "HEAD":
		p.reportf(s, warnHead, "write GET", "HEAD is treated as GET, and so is this route")
		e.method = "GET"
	}
	return true
}

// parsePattern reads the path of a route.
func (p *parser) parsePattern(s span) ([]patternSegment, bool) {
	text := s.text()
	if text[0] != '/' {
		p.reportf(s, errPattern, "want a path that begins with a slash", "invalid path %q", s.mention())
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
			p.reportf(s.slice(start, start+end), errRouteName, "give each variable a different name", "the variable %s occurs twice", segment.variable)
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
	report := func(hint, format string, args ...any) (patternSegment, bool) {
		p.reportf(s, errPattern, hint, format, args...)
		return patternSegment{}, false
	}
	switch {
	case text == "" && last:
		return patternSegment{subtree: true}, true
	case text == exactEnd && last:
		return patternSegment{}, true
	case text == "":
		return report("remove the slash: empty segments are removed from paths before they are matched", "an empty segment never matches")
	case text == "." || text == "..":
		return report("write the resolved path: dot segments are resolved in paths before they are matched", "%q never matches", text)
	case strings.ContainsAny(text, "?"):
		return report("remove the query: a route matches the path only, and [params] reads the query", "%q contains a question mark", s.mention())
	case strings.ContainsAny(text, "{}"):
		return p.parseVariable(s, last)
	}
	literal, err := url.PathUnescape(text)
	if err != nil || strings.ContainsRune(literal, 0) {
		return report("write a percent sign as %25", "%q contains an invalid escape", s.mention())
	}
	switch name, colon := strings.CutPrefix(text, ":"); {
	case text == "*":
		p.reportf(s, warnLooksLike, "write {x} for any segment, {x...} for the rest of the path, or %2A for the character", "%q matches only itself", text)
	case colon:
		p.reportf(s, warnLooksLike, "write {"+cmp.Or(name, "x")+"} for any segment, or %3A for the character", "%q matches only itself", s.mention())
	}
	return patternSegment{literal: literal}, true
}

// parseVariable reads `{x}` or `{x...}`.
func (p *parser) parseVariable(s span, last bool) (patternSegment, bool) {
	text := s.text()
	if text[0] != '{' || text[len(text)-1] != '}' {
		p.reportf(s, errPattern, "a variable is a whole segment, as in /videos/{id}; write a literal brace as %7B or %7D", "invalid segment %q", s.mention())
		return patternSegment{}, false
	}
	name, rest := strings.CutSuffix(text[1:len(text)-1], "...")
	switch {
	case !s.slice(1, 1+len(name)).isName():
		p.reportf(s, errName, wantName, "invalid variable name %q", name)
	case rest && !last:
		p.reportf(s, errPattern, "move it to the end, or remove the dots", "%s must be the last segment", text)
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
	valid := true
	for _, piece := range s.statements(nil) {
		if piece.empty() {
			p.reportf(piece, warnNoEffect, "remove it", "superfluous semicolon")
			continue
		}
		name, value, found := piece.cut('=')
		switch {
		case !found || value.empty():
			p.reportf(piece, errConstant, "want name=value", "%q has no value", piece.mention())
		case !name.isName():
			p.reportf(name, errName, wantName, "invalid parameter name %q", name.mention())
		case names[name.text()] != "":
			p.reportf(name, errRouteName, "rename or remove it", "%s is already %s", name.text(), names[name.text()])
		default:
			text, ok := p.constant(value)
			if ok {
				names[name.text()] = "a constant of this route"
				if strings.TrimSpace(text) != "" { // else it has no effect, which has been reported
					e.constants = append(e.constants, Param{name.text(), text})
				}
				continue
			}
		}
		valid = false
	}
	return valid
}

// constant returns the value of a constant, which may be quoted.
func (p *parser) constant(s span) (string, bool) {
	if s.text()[0] != '"' {
		return s.text(), true
	}
	e, ok := p.parseQuoted(s, &valueQuotes)
	return e.text, ok
}
