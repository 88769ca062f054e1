package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/koalagate/koalagate/internal/method"
)

// ruleDecl is a line of [rules], with the spans that later checks point at.
type ruleDecl struct {
	*Rule
	at        span
	result    span // the value of the word, like returns, cost and name
	returns   span
	cost      span
	name      span
	since     instantDecl
	until     instantDecl
	resultNo  int64
	places    []span // of the conditions
	listed    []listedDict
	varying   []thresholdDecl
	wait      span          // the value of the word
	overdraft span          // the word
	ban       span          // the value of the word
	lease     span          // the value of the word
	mark      span          // the word
	used      span          // the word
	calendar  *calendarWord // the value of time; nil for seconds
}

// listedDict is a word list of a condition.
type listedDict struct {
	condition *Condition
	name      span
}

// ruleKeyword begins every line of [rules].
const ruleKeyword = "rule"

// The brackets of a rule, in order.
var bracketNames = []string{"[method]", "[conditions]", "[thresholds]", "[outcome]"}

// parseRule reads `rule : [method] [conditions] [thresholds] [outcome]`.
func (p *parser) parseRule(s span) {
	body, ok := p.ruleBody(s)
	if !ok {
		return
	}
	faults := p.found.count[Error]
	var pieces pieceBuffer
	brackets, ok := p.brackets(pieces[:0], body)
	if !ok {
		return
	}
	if len(brackets) != len(bracketNames) { // it is unclear which bracket is which
		if p.found.count[Error] == faults { // otherwise that finding is the reason
			p.reportBracketCount(brackets, body)
		}
		return
	}
	p.unswap(brackets)
	d := &ruleDecl{Rule: &Rule{Pos: s.position()}, at: s}
	methodKnown := p.parseMethod(d, brackets[0].trim())
	p.parseConditions(d, brackets[1])
	var list [8]word
	limits := p.words(list[:0], brackets[2], thresholdNames, outcomeNames, "the fourth bracket, the outcome")
	if methodKnown { // else it is unclear which thresholds are used and required
		p.parseWords(d, thresholds, limits, brackets[2].end(), true)
		p.checkThresholds(d, limits)
		p.checkSettling(d)
		p.checkLease(d)
	}
	p.parseWords(d, outcomes, p.words(list[:0], brackets[3], outcomeNames, thresholdNames, "the third bracket, the thresholds"), brackets[3].end(), methodKnown)
	p.checkMark(d)
	p.rules = append(p.rules, d)
}

// reportBracketCount reports that a rule has too few or too many brackets.
func (p *parser) reportBracketCount(brackets []span, body span) {
	at := body.end()
	if len(brackets) > len(bracketNames) {
		at = brackets[len(bracketNames)]
	}
	p.reportf(at, errBrackets, "want four: "+strings.Join(bracketNames, " "), "wrong number of brackets: %d", len(brackets))
}

// unswap reports swapped brackets and puts them in order, so that each of their
// words does not become a finding of its own.
func (p *parser) unswap(brackets []span) {
	conditions, limits, outcome := brackets[1], brackets[2], brackets[3]
	switch {
	case limits.allNamed(outcomeNames) && outcome.allNamed(thresholdNames):
		brackets[2], brackets[3] = outcome, limits
		p.reportf(limits.trim(), errWord, "want "+strings.Join(bracketNames, " "), "the thresholds and the outcome are swapped")
	case conditions.allNamed(thresholdNames) && limits.noneNamed(thresholdNames):
		brackets[1], brackets[2] = limits, conditions
		p.reportf(conditions.trim(), errWord, "want "+strings.Join(bracketNames, " "), "the conditions and the thresholds are swapped")
	}
}

// allNamed reports whether a bracket has words, and all have one of these names.
func (s span) allNamed(names []string) bool {
	return s.allWords(func(name string) bool { return slices.Contains(names, name) })
}

// noneNamed reports whether a bracket has words, and none has one of these names.
func (s span) noneNamed(names []string) bool {
	return s.allWords(func(name string) bool { return !slices.Contains(names, name) })
}

// allWords reports whether a bracket has words, and ok holds for all their names.
func (s span) allWords(ok func(name string) bool) bool {
	var pieces pieceBuffer
	words := s.statements(pieces[:0])
	return len(words) > 0 && !slices.ContainsFunc(words, func(word span) bool {
		name, _, _ := word.cut('=')
		return !ok(name.text())
	})
}

// ruleBody returns the part of a line after `rule :`.
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
		p.reportf(keyword.end(), errStatement, "want rule : "+strings.Join(bracketNames, " "), "missing colon after rule")
		return s.tail(bracket), true
	case keyword.empty():
		p.reportf(keyword, errStatement, "want rule : "+strings.Join(bracketNames, " "), "missing rule : before the brackets")
		return s.tail(bracket), true
	}
	hint := cmp.Or(halfWidthHint(keyword.text(), ":[]"), "want rule : "+strings.Join(bracketNames, " "))
	p.found.add(errStatement, keyword, Finding{
		Message: fmt.Sprintf("%q does not begin a statement of [rules]", keyword.mention()), Hint: hint,
		Suggestion: suggest(keyword.text(), []string{ruleKeyword}),
	})
	return s.tail(bracket), bracket < len(text)
}

// brackets appends the contents of a rule's brackets to list. It returns false if a
// quote is not closed, because then the text after it cannot be interpreted.
func (p *parser) brackets(list []span, body span) ([]span, bool) {
	text := body.text()
	opened, closed := -1, 0 // the index of the open bracket, and the end of the previous one
	quote := body.scan('[', ']', func(i int) bool {
		switch {
		case text[i] == '[':
			if opened >= 0 {
				p.reportf(body.slice(opened, opened+1), errUnclosed, "close it with ] before the next [, or quote a value that contains [", "the bracket is not closed")
				list = append(list, body.slice(opened+1, i))
			} else {
				p.reportText(body.slice(closed, i).trim())
			}
			opened = i
		case opened >= 0:
			list = append(list, body.slice(opened+1, i))
			opened, closed = -1, i+1
		}
		return true
	})
	if quote >= 0 {
		p.reportf(body.slice(quote, quote+1), errQuote, `close it with "; inside quotes, \" is a quote and \\ a backslash`, "the quote is not closed")
		return nil, false
	}
	if opened >= 0 {
		p.reportf(body.slice(opened, opened+1), errUnclosed, "close it with ]", "the bracket is not closed")
		return append(list, body.tail(opened+1)), true
	}
	p.reportText(body.tail(closed).trim())
	return list, true
}

// reportText reports text outside the brackets of a rule, except for a semicolon at
// the end of the line.
func (p *parser) reportText(s span) {
	switch {
	case s.empty():
	case s.text() == ";" && strings.TrimLeft(s.line.text[s.to:], " \t") == "":
	case s.text()[0] == '#':
		p.reportf(s, errOutside, "move it to a line of its own", "comment after a rule")
	case strings.ContainsAny(s.text()[:1], "({<"):
		p.reportf(s, errOutside, "use square brackets: "+strings.Join(bracketNames, " "), "text outside the brackets: %q", s.mention())
	default:
		p.reportf(s, errOutside, cmp.Or(halfWidthHint(s.text(), "[]"), "move it into a bracket, or remove it"), "text outside the brackets: %q", s.mention())
	}
}

func (p *parser) parseMethod(d *ruleDecl, s span) bool {
	m, known := method.Named(s.text())
	if !known { // the rest of the rule is checked against the method that was probably meant
		m, known = method.Named(p.unknown(s, errMethod, "method", methodNames))
	}
	d.Method = Method(m)
	return known
}

// parseConditions reads the second bracket.
func (p *parser) parseConditions(d *ruleDecl, s span) {
	var all pieceBuffer
	pieces := s.statements(all[:0])
	if len(pieces) == 0 {
		p.reportf(s, warnNoCondition, "write door=+{~} if it is meant to match every request", "the rule has no condition and matches every request")
	}
	if len(pieces) > maxConditions {
		p.reportf(pieces[maxConditions], errConditions, fmt.Sprintf("want at most %d", maxConditions), "the rule has %d conditions", len(pieces))
		return
	}
	d.Conditions, d.places = make([]*Condition, 0, len(pieces)), make([]span, 0, len(pieces))
	conditions := make([]Condition, len(pieces)) // one allocation, because they have the same lifetime
	for i, piece := range pieces {
		if piece.empty() {
			p.reportf(piece, warnNoEffect, "remove it", "superfluous semicolon")
			continue
		}
		c := p.parseCondition(d, &conditions[i], piece)
		if c == nil {
			continue
		}
		if slices.ContainsFunc(d.Conditions, func(other *Condition) bool { return other.Name == c.Name }) {
			p.reportf(piece, errNameTwice, "combine its values in one condition, or write two rules", "the parameter %s occurs twice in this rule", c.Name)
		}
		d.Conditions, d.places = append(d.Conditions, c), append(d.places, piece)
	}
}
