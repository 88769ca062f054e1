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
	cost     word
	resultNo int64
	places   []span // of the conditions
	listed   []listedDict
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
	faults := p.found.count[Error]
	brackets, ok := p.brackets(body)
	if !ok {
		return
	}
	if len(brackets) != len(bracketNames) { // which bracket is which cannot be told
		if p.found.count[Error] == faults { // else that is why
			p.reportNumber(brackets, body)
		}
		return
	}
	p.exchange(brackets)
	d := &ruleDecl{Rule: &Rule{Pos: s.position()}, at: s}
	methodKnown := p.parseMethod(d, brackets[0].trim())
	p.parseConditions(d, brackets[1])
	p.parseThresholds(d, p.words(brackets[2], thresholdWords, outcomeWords), brackets[2].end(), methodKnown)
	p.parseOutcome(d, p.words(brackets[3], outcomeWords, thresholdWords), brackets[3].end(), methodKnown)
	p.rules = append(p.rules, d)
}

// reportNumber reports brackets that are too few or too many.
func (p *parser) reportNumber(brackets []span, body span) {
	at := body.end()
	if len(brackets) > len(bracketNames) {
		at = brackets[len(bracketNames)]
	}
	p.reportf(at, errBrackets, "want "+strings.Join(bracketNames, " "), "a rule has four brackets, and this one %d", len(brackets))
}

// exchange reports brackets that have changed places, and puts them right, so
// that nothing in them is taken for something else.
func (p *parser) exchange(brackets []span) {
	conditions, limits, outcome := brackets[1], brackets[2], brackets[3]
	switch {
	case limits.allNamed(outcomeWords) && outcome.allNamed(thresholdWords):
		brackets[2], brackets[3] = outcome, limits
		p.reportf(limits.trim(), errWord, "want "+strings.Join(bracketNames, " "), "the thresholds and the outcome have changed places")
	case conditions.allNamed(thresholdWords) && limits.noneNamed(thresholdWords):
		brackets[1], brackets[2] = limits, conditions
		p.reportf(conditions.trim(), errWord, "want "+strings.Join(bracketNames, " "), "the conditions and the thresholds have changed places")
	}
}

// named is the number of words in a bracket, and of those with one of the names.
func (s span) named(names []string) (words, named int) {
	pieces := s.statements()
	for _, piece := range pieces {
		if name, _, _ := piece.cut('='); slices.Contains(names, name.text()) {
			named++
		}
	}
	return len(pieces), named
}

// allNamed tells whether a bracket has words, all with one of these names.
func (s span) allNamed(names []string) bool {
	words, named := s.named(names)
	return words > 0 && named == words
}

// noneNamed tells whether a bracket has words, none with one of these names.
func (s span) noneNamed(names []string) bool {
	words, named := s.named(names)
	return words > 0 && named == 0
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
	hint := "want rule : " + strings.Join(bracketNames, " ")
	if strings.Contains(keyword.text(), "：") {
		hint = "the colon is a full-width one, write :"
	}
	p.found.add(errStatement, keyword, Finding{
		Message: fmt.Sprintf("%q is no statement of [rules]", keyword.mention()), Hint: hint,
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
	case s.empty():
	case s.text() == ";" && s.to == len(strings.TrimRight(s.line.text, " \t")):
	case s.text()[0] == '#':
		p.reportf(s, errOutside, "a comment stands on a line of its own", "a comment behind a rule")
	case strings.ContainsAny(s.text()[:1], "({<"):
		p.reportf(s, errOutside, "the brackets of a rule are square: "+strings.Join(bracketNames, " "), "text outside the brackets: %q", s.mention())
	default:
		p.reportf(s, errOutside, "put it into a bracket, or take it out", "text outside the brackets: %q", s.mention())
	}
}

func (p *parser) parseMethod(d *ruleDecl, s span) bool {
	if i := slices.Index(methodNames[:], s.text()); i >= 0 {
		d.Method = Method(i)
		return true
	}
	// The rest of the rule is held to the method that was probably meant.
	if i := slices.Index(methodNames[:], p.unknown(s, errMethod, "method", methodNames[:])); i >= 0 {
		d.Method = Method(i)
		return true
	}
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
		d.Conditions, d.places = append(d.Conditions, c), append(d.places, piece)
	}
}
