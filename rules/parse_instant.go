package rules

import (
	"fmt"
	"strings"
)

// The words of a condition that compares its parameter with the time of the request.
const (
	beforeWord = "before"
	afterWord  = "after"
	nowWord    = "now"
)

// parseTimed reads `before now` or `after now` into c, and reports whether the text is
// one of them or meant to be one. The condition is nil if it reports an error.
func (p *parser) parseTimed(c *Condition, s span) (timed *Condition, meant bool) {
	word := s.name()
	if word.text() != beforeWord && word.text() != afterWord {
		return nil, false
	}
	operand := s.tail(len(word.text())).trim()
	switch now := p.joint(c, operand); {
	case c.Negated:
		p.reportf(word, errOperator, fmt.Sprintf("write %s %s %s", c.Name, other(word.text()), nowWord), "unknown operator !%s", word.text())
		return nil, true
	case now.empty():
		p.reportf(now, errNoValue, fmt.Sprintf("write %s %s %s", c.Name, word.text(), nowWord), "missing %s", nowWord)
		return nil, true
	case now.text() != nowWord:
		p.reportf(operand, errOperator, fmt.Sprintf("write %s %s %s; since= and until= of a rule have fixed times", c.Name, word.text(), nowWord),
			"%s compares with %s only, not with %q", word.text(), nowWord, now.mention())
		return nil, true
	case c.OfResponse():
		p.reportf(s, errResponse, "compare a parameter of the request", "a condition on the response cannot be compared with the time")
		return nil, true
	case c.Joint:
		p.reportf(operand.tail(len(nowWord)), warnNoEffect, "remove it: a parameter that is compared with the time is not part of the identity", "{~} has no effect here")
	}
	c.form = formBefore
	if word.text() == afterWord {
		c.form = formAfter
	}
	return setText(c, operand, word.text(), nowWord), true
}

// other returns the opposite of beforeWord or afterWord.
func other(word string) string {
	if word == beforeWord {
		return afterWord
	}
	return beforeWord
}

// timedHint returns the hint for `< now` and `> now`, "" for any other bound.
func timedHint(c *Condition, operator byte, bound string) string {
	if !strings.EqualFold(bound, nowWord) {
		return ""
	}
	word := beforeWord
	if (operator == '>') != c.Negated {
		word = afterWord
	}
	return fmt.Sprintf("write %s %s %s", c.Name, word, nowWord)
}
