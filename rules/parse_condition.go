package rules

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// maxConditions is the maximum number of conditions of a rule. An identity stores
// the number of its values in one byte.
const maxConditions = 128

// The marks after a value that exclude its parameter from the identity.
const (
	jointMark    = "{~}"
	oldJointMark = "{*}"
)

// operators are the operators of conditions. After an exclamation mark, each negates its
// condition.
var operators = []struct {
	sign   byte
	listed []string // in hints
	parse  func(p *parser, d *ruleDecl, c *Condition, operand span) *Condition
}{
	{'=', []string{"=", "!="}, parseEqual},
	{'<', []string{"<"}, parseBound(formBelow, '<')},
	{'>', []string{">"}, parseBound(formAbove, '>')},
	{'@', []string{"@", "!@"}, parseListed},
	{'~', []string{"~", "!~"}, parseGlobs},
}

// operatorSigns are the characters that operators begin with, and wantOperator the hint
// that lists them.
var operatorSigns, wantOperator = func() (signs, hint string) {
	begins, listed := []byte{'!'}, []string(nil)
	for _, o := range operators {
		begins, listed = append(begins, o.sign), append(listed, o.listed...)
	}
	listed = append(listed, beforeWord+" "+nowWord, afterWord+" "+nowWord)
	return string(begins), "want " + oneOf(listed)
}()

// parseCondition reads `name op value` into c. It returns nil if it reports an error.
func (p *parser) parseCondition(d *ruleDecl, c *Condition, s span) *Condition {
	name := s.name()
	if name.empty() {
		p.reportf(s, errName, wantName, "%q does not begin with a parameter name", s.mention())
		return nil
	}
	c.Name, c.Pos = name.text(), s.position()
	rest := s.tail(name.to - name.from).trim()
	if old := p.oldList(c, name, rest); old != nil {
		return parseListed(p, d, c, *old)
	}
	if strings.HasPrefix(rest.text(), "{") && p.misplacedJoint(rest) {
		return nil
	}
	operator := rest
	if strings.HasPrefix(rest.text(), "!") {
		c.Negated = true
		rest = rest.tail(1).trim()
	}
	if timed, meant := p.parseTimed(c, rest); meant {
		return timed
	}
	if rest.empty() {
		p.reportf(operator, errOperator, wantOperator+" after the name", "the condition on %s has no operator", c.Name)
		return nil
	}
	operand := rest.tail(1).trim()
	for i := range operators {
		if o := &operators[i]; o.sign == rest.text()[0] {
			return o.parse(p, d, c, operand)
		}
	}
	hint := wantOperator
	if strings.EqualFold(firstWord(operator), "in") {
		hint = "write " + c.Name + " @ LIST, with a word list of [dicts]"
	}
	p.reportf(operator, errOperator, cmp.Or(halfWidthHint(firstRune(rest.text()), operatorSigns), hint), "unknown operator %q", firstWord(operator))
	return nil
}

// firstWord returns the name that s begins with, or else its first character.
func firstWord(s span) string {
	if name := s.name(); !name.empty() {
		return name.mention()
	}
	return firstRune(s.text())
}

func firstRune(text string) string {
	for i := range text {
		if i > 0 {
			return text[:i]
		}
	}
	return text
}

// oldList recognizes `qid-IN-list` and `qid-NOTIN-list`, the deprecated spellings of
// `@` and `!@`, and returns the span of the list's name and the mark after it. Names
// may contain hyphens, so name may be the whole condition.
func (p *parser) oldList(c *Condition, name, rest span) *span {
	all := span{name.line, name.from, rest.to}
	switch {
	case rest.empty(), rest.text()[0] == '-', rest.text()[0] == '{':
	case strings.IndexByte(operatorSigns, rest.text()[0]) >= 0:
		return nil // the hyphens are part of the name
	case rest.from > name.to && !strings.HasSuffix(name.text(), "IN-"):
		return nil // an extra word
	}
	for _, old := range []struct {
		mark, now string
		negated   bool
	}{{"-NOTIN-", "!@", true}, {"-IN-", "@", false}} {
		i := strings.Index(all.text(), old.mark)
		if i < 0 || !all.slice(0, i).trim().isName() {
			continue
		}
		parameter, list := all.slice(0, i).trim(), all.tail(i+len(old.mark)).trim()
		word, _ := list.cutJoint()
		p.reportf(all, warnOldSpelling, fmt.Sprintf("write %s %s %s", parameter.text(), old.now, word.text()), "%s is a deprecated spelling", old.mark)
		c.Name, c.Negated = parameter.text(), old.negated
		return &list
	}
	return nil
}

// joint removes the mark from the end of a value and sets c.Joint.
func (p *parser) joint(c *Condition, s span) span {
	value, mark := s.cutJoint()
	if mark.text() == oldJointMark {
		p.reportf(mark, warnOldSpelling, "write {~}", "{*} is a deprecated spelling")
	}
	c.Joint = c.Joint || !mark.empty()
	return value
}

// cutJoint cuts s into a value and the mark after it, if it has one.
func (s span) cutJoint() (value, mark span) {
	for _, m := range []string{jointMark, oldJointMark} {
		if before, found := strings.CutSuffix(s.text(), m); found {
			return s.slice(0, len(before)).trim(), s.tail(len(before))
		}
	}
	return s, s.end()
}

// parseListed reads the operand of `@`: the names of word lists, separated by commas.
func parseListed(p *parser, d *ruleDecl, c *Condition, operand span) *Condition {
	var pieces pieceBuffer
	var short [96]byte
	written, names := short[:0], operand.split(pieces[:0], ',')
	var seen map[string]bool
	if len(names) > 1 {
		seen = make(map[string]bool, len(names))
	}
	for _, piece := range names {
		name := p.joint(c, piece)
		switch {
		case name.empty():
			p.reportf(piece, errNoValue, "want the name of a word list from [dicts]", "missing word list name")
			return nil
		case p.misplacedJoint(name):
			return nil
		}
		if len(written) > 0 {
			written = append(written, ',')
		}
		written = append(written, name.text()...)
		if seen[name.text()] {
			p.reportf(name, warnNoEffect, "remove it", "the word list %s occurs twice in this condition", name.text())
			continue
		}
		if seen != nil {
			seen[name.text()] = true
		}
		d.listed = append(d.listed, listedDict{c, name})
	}
	c.form = formDict
	return setText(c, operand, negate(c, "@"), written)
}

// parseBound returns the function that reads the operand of `<` or `>`.
func parseBound(form form, operator byte) func(*parser, *ruleDecl, *Condition, span) *Condition {
	return func(p *parser, _ *ruleDecl, c *Condition, operand span) *Condition {
		return p.parseBound(c, form, operator, operand)
	}
}

func (p *parser) parseBound(c *Condition, form form, operator byte, operand span) *Condition {
	text := operand.text()
	switch {
	case strings.HasPrefix(text, "="):
		p.reportf(operand, errOperator, "want < or >: write n>4 instead of n>=5, and n<6 instead of n<=5", "unknown operator %c=", operator)
		return nil
	case operator == '<' && strings.HasPrefix(text, ">"):
		p.reportf(operand, errOperator, "write !=", "unknown operator <>")
		return nil
	}
	number := p.joint(c, operand)
	switch {
	case number.empty():
		p.reportf(operand, errNoValue, "want an integer", "the condition on %s has no bound", c.Name)
		return nil
	case p.misplacedJoint(number):
		return nil
	}
	n, ok := parseInteger(number.text())
	if !ok {
		p.reportf(number, errInteger, cmp.Or(timedHint(c, operator, number.text()), "want an integer from -9223372036854775808 to 9223372036854775807"), "%q is not a 64-bit integer", number.mention())
		return nil
	}
	if !c.Negated && (operator == '>' && n == math.MaxInt64 || operator == '<' && n == math.MinInt64) {
		p.reportf(number, warnNoEffect, "remove the rule, or choose another bound", "no integer is %c %d", operator, n)
	}
	c.form, c.bound = form, n
	return setText(c, operand, negate(c, string(operator)), strconv.FormatInt(n, 10))
}

// parseEqual reads the operand of `=`.
func parseEqual(p *parser, _ *ruleDecl, c *Condition, operand span) *Condition {
	if operand.empty() {
		p.reportf(operand, errNoValue, "want a value, + for any value, or !=+ for an absent parameter", "the condition on %s has no value", c.Name)
		return nil
	}
	if strings.HasPrefix(operand.text(), "=") {
		p.reportf(operand, errOperator, "write a single =", "unknown operator ==")
		return nil
	}
	if value, _ := operand.cutJoint(); value.text() == "+" {
		p.joint(c, operand)
		c.form = formPresent
		if c.Negated {
			c.form = formAbsent
			if c.Joint {
				p.reportf(operand.tail(1), warnNoEffect, "remove it: an absent parameter is not part of the identity", "{~} has no effect here")
			}
		}
		return setText(c, operand, negate(c, "="), "+")
	}
	return p.parseList(c, operand)
}

// negate returns the operator with the negation of c.
func negate(c *Condition, operator string) string {
	if c.Negated {
		return "!" + operator
	}
	return operator
}

// setText sets the canonical text of the condition, whose operand is at the span.
func setText[T string | []byte](c *Condition, at span, operator string, operand T) *Condition {
	var few [96]byte
	text := append(few[:0], c.Name...)
	if forms[c.form].spaced {
		operator = " " + operator + " "
	}
	text = append(append(text, operator...), operand...)
	if c.Joint {
		text = append(text, jointMark...)
	}
	line := at.line.text[:at.to]
	c.written = intern(line[max(0, len(line)-len(text)):], text)
	return c
}

// intern returns the canonical text as a string. Most texts are canonical already,
// and then text itself is returned, which takes no memory.
func intern(text string, canonical []byte) string {
	if text == string(canonical) {
		return text
	}
	return string(canonical)
}

// misplacedJoint reports a mark inside a value.
func (p *parser) misplacedJoint(s span) bool {
	if strings.IndexByte(s.text(), '{') < 0 && strings.IndexByte(s.text(), '}') < 0 {
		return false // the usual case
	}
	for _, mark := range []string{jointMark, oldJointMark, "{~", "~}"} {
		if i := strings.Index(s.text(), mark); i >= 0 {
			p.reportf(s.slice(i, i+len(mark)), errJoint, "move {~} to the end of the value, or quote the value if this is part of it", "%s inside a value", mark)
			return true
		}
	}
	return false
}
