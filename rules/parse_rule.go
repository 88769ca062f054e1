package rules

import (
	"fmt"
	"slices"
	"strings"
)

// ruleDecl is a line of [rules], with the places that later checks point at.
type ruleDecl struct {
	*Rule
	at       span
	result   word
	returns  word
	listed   []listedDict
	faulty   bool // something in it was reported
	resultNo int64
}

// listedDict is a condition that looks into a word list.
type listedDict struct {
	condition *Condition
	name      span
}

// ruleKeyword begins every line of [rules].
const ruleKeyword = "rule"

// The brackets of a rule, in their order.
var bracketNames = []string{"[method]", "[conditions]", "[thresholds]", "[outcome]"}

// parseRule reads `rule : [method] [conditions] [thresholds] [outcome]`.
func (p *parser) parseRule(s span) {
	body, ok := p.ruleBody(s)
	if !ok {
		return
	}
	brackets, ok := p.brackets(body)
	if !ok {
		return
	}
	d := &ruleDecl{Rule: &Rule{Pos: s.position()}, at: s}
	errors := p.found.count[Error]
	end := body.end()
	switch n := len(brackets); {
	case n < len(bracketNames):
		p.reportf(end, errBrackets, "want "+strings.Join(bracketNames, " "), "%s missing", bracketNames[n]+plural(len(bracketNames)-n, " is", " and what follows are"))
	case n > len(bracketNames):
		p.reportf(brackets[4], errBrackets, "want "+strings.Join(bracketNames, " "), "a bracket too many")
	}
	methodKnown := false
	for i, b := range brackets[:min(len(brackets), len(bracketNames))] {
		switch i {
		case 0:
			methodKnown = p.parseMethod(d, b.trim())
		case 1:
			p.parseConditions(d, b)
		case 2:
			p.parseThresholds(d, p.words(b, thresholdWords, outcomeWords), b.end(), methodKnown)
		case 3:
			p.parseOutcome(d, p.words(b, outcomeWords, thresholdWords), b.end(), methodKnown)
		}
	}
	d.faulty = p.found.count[Error] > errors
	p.rules = append(p.rules, d)
}

func plural(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

// ruleBody is what follows `rule :`.
func (p *parser) ruleBody(s span) (span, bool) {
	text := s.text()
	bracket := strings.IndexByte(text, '[')
	if bracket < 0 {
		bracket = len(text)
	}
	keyword, body, found := s.slice(0, bracket).cut(':')
	body.to = s.to
	switch {
	case found && keyword.text() == ruleKeyword:
		return body, true
	case !found && keyword.text() == ruleKeyword:
		p.reportf(keyword.end(), errStatement, "want rule : "+strings.Join(bracketNames, " "), "a colon is missing behind rule")
		return s.tail(bracket), true
	case keyword.empty():
		p.reportf(keyword, errStatement, "want rule : "+strings.Join(bracketNames, " "), "rule : is missing before the brackets")
		return s.tail(bracket), true
	}
	p.found.add(errStatement, keyword, Finding{
		Message: fmt.Sprintf("%q is no statement of [rules]", keyword.mention()), Hint: "want rule : " + strings.Join(bracketNames, " "),
		Suggestion: suggest(keyword.text(), []string{ruleKeyword}),
	})
	return s.tail(bracket), bracket < len(text)
}

// brackets cuts the body of a rule into what its brackets hold. It returns
// false if a quote is not closed: then nothing behind it can be told.
func (p *parser) brackets(body span) ([]span, bool) {
	var list []span
	text := body.text()
	opened, outside := -1, -1 // where the bracket, or text outside them, began
	leave := func(i int) {
		if outside >= 0 {
			p.reportText(body.slice(outside, i).trim())
		}
		outside = -1
	}
	quote := body.scan(func(i int, b byte) bool {
		switch {
		case b == '[':
			if opened >= 0 {
				p.reportf(body.slice(opened, opened+1), errUnclosed, "put a ] before the next [, or quote the value if it holds one", "the bracket is not closed")
				list = append(list, body.slice(opened+1, i))
			}
			leave(i)
			opened = i
		case opened >= 0 && b == ']':
			list = append(list, body.slice(opened+1, i))
			opened = -1
		case opened < 0 && outside < 0 && !isBlank(b):
			outside = i
		}
		return true
	})
	if quote >= 0 {
		p.reportf(body.slice(quote, quote+1), errQuote, `close it with a "; inside quotes \" is a quote and \\ a backslash`, "the quote is not closed")
		return nil, false
	}
	if opened >= 0 {
		p.reportf(body.slice(opened, opened+1), errUnclosed, "close it with a ]", "the bracket is not closed")
		list = append(list, body.tail(opened+1))
	}
	leave(len(text))
	return list, true
}

// reportText reports text outside the brackets of a rule. A semicolon at the
// end is none.
func (p *parser) reportText(s span) {
	switch {
	case s.text() == ";" && s.to == len(strings.TrimRight(s.line.text, " \t")):
	case s.text()[0] == '#':
		p.reportf(s, errOutside, "a comment stands on a line of its own", "a comment behind a rule")
	default:
		p.reportf(s, errOutside, "put it into a bracket, or take it out", "text outside the brackets: %q", s.mention())
	}
}

func (p *parser) parseMethod(d *ruleDecl, s span) bool {
	if i := slices.Index(methodNames[:], s.text()); i >= 0 {
		d.Method = Method(i)
		return true
	}
	p.unknown(s, errMethod, "method", methodNames[:])
	return false
}

// parseConditions reads the second bracket.
func (p *parser) parseConditions(d *ruleDecl, s span) {
	pieces := s.statements()
	if len(pieces) == 0 {
		p.reportf(s, warnNoCondition, "write door=+{~} if every request is meant", "the rule has no condition and matches every request")
	}
	if len(pieces) > maxConditions {
		p.reportf(pieces[maxConditions], errConditions, fmt.Sprintf("want at most %d", maxConditions), "the rule has %d conditions", len(pieces))
		return
	}
	names := make(map[string]bool, len(pieces))
	for _, piece := range pieces {
		if piece.empty() {
			p.reportf(piece, warnNoEffect, "take it out", "a semicolon too many")
			continue
		}
		c := p.parseCondition(d, piece)
		if c == nil {
			continue
		}
		if names[c.Name] {
			p.reportf(piece, errNameTwice, "join its values in one condition, or write two rules", "the parameter %s stands twice in this rule", c.Name)
		}
		names[c.Name] = true
		d.Conditions = append(d.Conditions, c)
	}
}
