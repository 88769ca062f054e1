package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// ruleDecl is a line of [rules], with the places that later checks point at.
type ruleDecl struct {
	*Rule
	at       span
	result   span // the value, as of the next two
	returns  span
	cost     span
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
	var pieces room
	brackets, ok := p.brackets(pieces[:0], body)
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
	var list [8]word
	p.parseThresholds(d, p.words(list[:0], brackets[2], thresholdWords, outcomeWords), brackets[2].end(), methodKnown)
	p.parseOutcome(d, p.words(list[:0], brackets[3], outcomeWords, thresholdWords), brackets[3].end(), methodKnown)
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

// allNamed tells whether a bracket has words, all with one of these names.
func (s span) allNamed(names []string) bool {
	return s.allWords(func(name string) bool { return slices.Contains(names, name) })
}

// noneNamed tells whether a bracket has words, none with one of these names.
func (s span) noneNamed(names []string) bool {
	return s.allWords(func(name string) bool { return !slices.Contains(names, name) })
}

// allWords tells whether a bracket has words, all with a name that will do.
func (s span) allWords(will func(name string) bool) bool {
	var pieces room
	words := s.statements(pieces[:0])
	return len(words) > 0 && !slices.ContainsFunc(words, func(word span) bool {
		name, _, _ := word.cut('=')
		return !will(name.text())
	})
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
	hint := cmp.Or(halfWidthHint(keyword.text(), ":[]"), "want rule : "+strings.Join(bracketNames, " "))
	p.found.add(errStatement, keyword, Finding{
		Message: fmt.Sprintf("%q is no statement of [rules]", keyword.mention()), Hint: hint,
		Suggestion: suggest(keyword.text(), []string{ruleKeyword}),
	})
	return s.tail(bracket), bracket < len(text)
}

// brackets cuts the body of a rule into what its brackets hold, and appends it
// to list. It returns false if a quote is not closed: then nothing behind it
// can be told.
func (p *parser) brackets(list []span, body span) ([]span, bool) {
	text := body.text()
	opened, closed := -1, 0 // where the bracket began, and behind which the last one ended
	quote := body.scan('[', ']', func(i int) bool {
		switch {
		case text[i] == '[':
			if opened >= 0 {
				p.reportf(body.slice(opened, opened+1), errUnclosed, "put a ] before the next [, or quote the value if it holds one", "the bracket is not closed")
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
		p.reportf(body.slice(quote, quote+1), errQuote, `close it with a "; inside quotes \" is a quote and \\ a backslash`, "the quote is not closed")
		return nil, false
	}
	if opened >= 0 {
		p.reportf(body.slice(opened, opened+1), errUnclosed, "close it with a ]", "the bracket is not closed")
		return append(list, body.tail(opened+1)), true
	}
	p.reportText(body.tail(closed).trim())
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
		p.reportf(s, errOutside, cmp.Or(halfWidthHint(s.text(), "[]"), "put it into a bracket, or take it out"), "text outside the brackets: %q", s.mention())
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
	var all room
	pieces := s.statements(all[:0])
	if len(pieces) == 0 {
		p.reportf(s, warnNoCondition, "write door=+{~} if every request is meant", "the rule has no condition and matches every request")
	}
	if len(pieces) > maxConditions {
		p.reportf(pieces[maxConditions], errConditions, fmt.Sprintf("want at most %d", maxConditions), "the rule has %d conditions", len(pieces))
		return
	}
	d.Conditions, d.places = make([]*Condition, 0, len(pieces)), make([]span, 0, len(pieces))
	conditions := make([]Condition, len(pieces)) // together: they live as long as each other
	for i, piece := range pieces {
		if piece.empty() {
			p.reportf(piece, warnNoEffect, "take it out", "a semicolon too many")
			continue
		}
		c := p.parseCondition(d, &conditions[i], piece)
		if c == nil {
			continue
		}
		if slices.ContainsFunc(d.Conditions, func(other *Condition) bool { return other.Name == c.Name }) {
			p.reportf(piece, errNameTwice, "join its values in one condition, or write two rules", "the parameter %s stands twice in this rule", c.Name)
		}
		d.Conditions, d.places = append(d.Conditions, c), append(d.places, piece)
	}
}
