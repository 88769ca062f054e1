package rules

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// maxConditions bounds the conditions of a rule, and with them the values of an
// identity, whose number has one byte.
const maxConditions = 128

// The marks behind a value that take its parameter out of the identity.
const (
	jointMark    = "{~}"
	oldJointMark = "{*}"
)

// parseCondition reads `name op value` into c. It returns nil for what it reports.
func (p *parser) parseCondition(d *ruleDecl, c *Condition, s span) *Condition {
	name := s.name()
	if name.empty() {
		p.reportf(s, errName, wantName, "%q begins with no name of a parameter", s.mention())
		return nil
	}
	c.Name, c.Pos = name.text(), s.position()
	rest := s.tail(name.to - name.from).trim()
	if old := p.oldList(c, name, rest); old != nil {
		return p.parseListed(d, c, *old)
	}
	if strings.HasPrefix(rest.text(), "{") && p.misplacedJoint(rest) {
		return nil
	}
	operator := rest
	if strings.HasPrefix(rest.text(), "!") {
		c.Negated = true
		rest = rest.tail(1).trim()
	}
	if rest.empty() {
		p.reportf(operator, errOperator, "want =, !=, <, >, @ or !@ behind the name", "the condition on %s has no operator", c.Name)
		return nil
	}
	operand := rest.tail(1).trim()
	switch rest.text()[0] {
	case '=':
		return p.parseEqual(c, operand)
	case '<', '>':
		return p.parseBound(c, rest.text()[0], operand)
	case '@':
		return p.parseListed(d, c, operand)
	}
	hint := "want =, !=, <, >, @ or !@"
	if strings.HasPrefix(rest.text(), "~") {
		hint += "; there are no regular expressions"
	}
	p.reportf(operator, errOperator, cmp.Or(halfWidthHint(firstRune(rest.text()), "=!<>@"), hint), "%q is no operator", firstWord(operator))
	return nil
}

// firstWord is the word that s begins with, or the sign if it is none.
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

// oldList recognises `qid-IN-list` and `qid-NOTIN-list`, the old spellings of
// `@` and `!@`, and returns the name of the list and what stands behind it.
// The hyphens may be part of a name, so the whole may have been read as one.
func (p *parser) oldList(c *Condition, name, rest span) *span {
	all := span{name.line, name.from, rest.to}
	switch {
	case rest.empty(), rest.text()[0] == '-', rest.text()[0] == '{':
	case strings.IndexByte("!=<>@", rest.text()[0]) >= 0:
		return nil // the hyphens are a part of the name
	case rest.from > name.to && !strings.HasSuffix(name.text(), "IN-"):
		return nil // a word too many
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
		p.reportf(all, warnOldSpelling, fmt.Sprintf("write %s %s %s", parameter.text(), old.now, word.text()), "%s is an old spelling", old.mark)
		c.Name, c.Negated = parameter.text(), old.negated
		return &list
	}
	return nil
}

// joint takes the mark off the end of a value.
func (p *parser) joint(c *Condition, s span) span {
	value, mark := s.cutJoint()
	if mark.text() == oldJointMark {
		p.reportf(mark, warnOldSpelling, "write {~}", "{*} is an old spelling")
	}
	c.Joint = c.Joint || !mark.empty()
	return value
}

// cutJoint cuts s into a value and the mark behind it, if there is one.
func (s span) cutJoint() (value, mark span) {
	for _, m := range []string{jointMark, oldJointMark} {
		if before, found := strings.CutSuffix(s.text(), m); found {
			return s.slice(0, len(before)).trim(), s.tail(len(before))
		}
	}
	return s, s.end()
}

// parseListed reads what follows `@`: the name of a word list.
func (p *parser) parseListed(d *ruleDecl, c *Condition, operand span) *Condition {
	name := p.joint(c, operand)
	switch {
	case name.empty():
		p.reportf(operand, errNoValue, "write the name of a word list of [dicts]", "the name of the word list is missing")
		return nil
	case p.misplacedJoint(name):
		return nil
	}
	c.form = formDict
	d.listed = append(d.listed, listedDict{c, name})
	return spelt(c, operand, not(c, "@"), name.text())
}

// parseBound reads what follows `<` and `>`.
func (p *parser) parseBound(c *Condition, operator byte, operand span) *Condition {
	text := operand.text()
	switch {
	case strings.HasPrefix(text, "="):
		p.reportf(operand, errOperator, "only < and > compare: in place of n>=5 write n>4, of n<=5 n<6", "%c= is no operator", operator)
		return nil
	case operator == '<' && strings.HasPrefix(text, ">"):
		p.reportf(operand, errOperator, "write !=", "<> is no operator")
		return nil
	}
	number := p.joint(c, operand)
	switch {
	case number.empty():
		p.reportf(operand, errNoValue, "write an integer", "the condition on %s lacks its bound", c.Name)
		return nil
	case p.misplacedJoint(number):
		return nil
	}
	n, ok := parseInteger(number.text())
	if !ok {
		p.reportf(number, errInteger, "want an integer, from -9223372036854775808 to 9223372036854775807", "%q is no integer of 64 bits", number.mention())
		return nil
	}
	if !c.Negated && (operator == '>' && n == math.MaxInt64 || operator == '<' && n == math.MinInt64) {
		p.reportf(number, warnNoEffect, "take the rule out, or choose another bound", "no integer is %c %d", operator, n)
	}
	c.form, c.bound = formAbove, n
	if operator == '<' {
		c.form = formBelow
	}
	return spelt(c, operand, not(c, string(operator)), strconv.FormatInt(n, 10))
}

// parseEqual reads what follows `=`.
func (p *parser) parseEqual(c *Condition, operand span) *Condition {
	if operand.empty() {
		p.reportf(operand, errNoValue, "write a value, + for any value, or !=+ for none", "the condition on %s lacks its value", c.Name)
		return nil
	}
	if strings.HasPrefix(operand.text(), "=") {
		p.reportf(operand, errOperator, "want a single =", "== is no operator")
		return nil
	}
	if value, _ := operand.cutJoint(); value.text() == "+" {
		p.joint(c, operand)
		c.form = formPresent
		if c.Negated {
			c.form = formAbsent
			if c.Joint {
				p.reportf(operand.tail(1), warnNoEffect, "take it out: a parameter that is absent is no part of the identity", "{~} has no effect here")
			}
		}
		return spelt(c, operand, not(c, "="), "+")
	}
	return p.parseList(c, operand)
}

// not is the operator with its negation.
func not(c *Condition, operator string) string {
	if c.Negated {
		return "!" + operator
	}
	return operator
}

// spelt sets the canonical text of the condition, whose operand stands there.
func spelt[T string | []byte](c *Condition, at span, operator string, operand T) *Condition {
	var few [96]byte
	text := append(few[:0], c.Name...)
	if c.form == formDict {
		operator = " " + operator + " "
	}
	text = append(append(text, operator...), operand...)
	if c.Joint {
		text = append(text, jointMark...)
	}
	line := at.line.text[:at.to]
	c.written = same(line[max(0, len(line)-len(text)):], text)
	return c
}

// same is the spelling as a string: the text itself if it is spelt so, as most
// are, since that takes no memory.
func same(text string, spelling []byte) string {
	if text == string(spelling) {
		return text
	}
	return string(spelling)
}

// misplacedJoint reports a mark inside a value.
func (p *parser) misplacedJoint(s span) bool {
	if strings.IndexByte(s.text(), '{') < 0 && strings.IndexByte(s.text(), '}') < 0 {
		return false // as nearly always
	}
	for _, mark := range []string{jointMark, oldJointMark, "{~", "~}"} {
		if i := strings.Index(s.text(), mark); i >= 0 {
			p.reportf(s.slice(i, i+len(mark)), errJoint, "put {~} behind the value, or quote the value if it holds this", "%s stands inside a value", mark)
			return true
		}
	}
	return false
}

// parseList reads values that are joined by commas.
func (p *parser) parseList(c *Condition, operand span) *Condition {
	var pieces room
	places := operand.split(pieces[:0], ',')
	var few [4]element
	elements := few[:0]
	for _, s := range places {
		e, ok := p.parseElement(c, s)
		if !ok {
			return nil
		}
		elements = append(elements, e)
		c.ranged = c.ranged || e.kind.ranged()
	}
	c.form = formList
	faultless := true
	var short [96]byte
	written := short[:0]
	for i := range elements {
		faultless = p.list(c, &elements[i], places[i]) && faultless
		if i > 0 {
			written = append(written, ',')
		}
		written = elements[i].appendSpelling(written)
	}
	if !faultless {
		return nil
	}
	slices.Sort(c.texts)
	c.texts = slices.Clip(slices.Compact(c.texts))
	c.integers = merge(c.integers, cmp.Compare)
	c.addresses = merge(c.addresses, netip.Addr.Compare)
	return spelt(c, operand, not(c, "="), written)
}

// list takes an element into the condition, as the list's kind compares it.
func (p *parser) list(c *Condition, e *element, at span) bool {
	switch e.kind {
	case wordElement:
		if c.ranged {
			p.reportf(at, errWordInRange, "a list that holds a range, a block or a pattern compares integers and addresses; quote the word to compare it as text", "%q is a word among ranges", at.mention())
			return false
		}
		c.texts = append(c.texts, e.text)
	case quotedElement:
		c.texts = append(c.texts, e.text)
	case integerElement:
		if !c.ranged {
			c.texts = append(c.texts, e.text)
			return true
		}
		if _, ok := parseInteger(e.text); !ok {
			s := beyond64(e.text)
			p.reportf(at, s.code, s.hint, "%s", s.message)
			return false
		}
		c.integers = append(c.integers, interval[int64]{e.low, e.high})
	case integerRange:
		c.integers = append(c.integers, interval[int64]{e.low, e.high})
	case addressElement, addressRange:
		c.addresses = append(c.addresses, interval[netip.Addr]{e.from, e.to})
	case patternElement:
		c.patterns = append(c.patterns, e.pattern)
	}
	return true
}

// parseElement reads one value of a list.
func (p *parser) parseElement(c *Condition, s span) (element, bool) {
	s = p.joint(c, s)
	if s.empty() {
		p.reportf(s, errNoValue, "write a value, or take the comma out", "a value is missing")
		return element{}, false
	}
	if s.text()[0] == '"' {
		return p.parseQuoted(s)
	}
	if p.misplacedJoint(s) || p.forgottenSemicolon(s) {
		return element{}, false
	}
	switch {
	case s.text() == "+":
		p.reportf(s, errPlus, "write it alone, or quote it if the value is a plus sign", "+ stands for any value and cannot stand among others")
		return element{}, false
	case strings.Contains(s.text(), `"`):
		i := strings.IndexByte(s.text(), '"')
		p.reportf(s.tail(i), errQuote, "quote the whole value", "a quote inside a value")
		return element{}, false
	}
	e, slip := classify(s.text())
	if slip == nil {
		return e, true
	}
	p.reportf(s, slip.code, slip.hint, "%s", slip.message)
	return e, slip.code.ID[0] == 'W'
}

// parseQuoted reads a quoted value.
func (p *parser) parseQuoted(s span) (element, bool) {
	text := s.text()
	end := closingQuote(text, 0)
	if end < 0 {
		p.reportf(s, errQuote, `close it with a "`, "the quote is not closed")
		return element{}, false
	}
	if rest := s.tail(end + 1).trim(); !rest.empty() {
		p.reportf(rest, errQuote, "want a comma, {~} or the end of the condition", "text behind a quoted value")
		return element{}, false
	}
	var b strings.Builder
	for i := 1; i < end; i++ {
		if text[i] == '\\' {
			if i++; text[i] != '"' && text[i] != '\\' {
				p.reportf(s.slice(i-1, i+1), errQuote, `inside quotes \" is a quote and \\ a backslash, and there is nothing else`, `%s means nothing`, firstRune(text[i-1:i])+firstRune(text[i:]))
				return element{}, false
			}
		}
		b.WriteByte(text[i])
	}
	e := element{kind: quotedElement, text: b.String()}
	if e.text == "" || e.text != strings.TrimSpace(e.text) {
		p.reportf(s, warnNoEffect, "a request's values are trimmed before they are compared, and an empty one counts as absent", "no value is ever %s", s.mention())
	}
	return e, true
}

// forgottenSemicolon reports a value that goes on with another condition.
func (p *parser) forgottenSemicolon(s span) bool {
	if strings.IndexByte(s.text(), '=') < 0 {
		return false // as nearly always
	}
	words := s.fields()
	for i := 1; i < len(words); i++ {
		name := words[i].name()
		behind := span{s.line, name.to, s.to}.trim().text()
		if !name.empty() && (strings.HasPrefix(behind, "=") || strings.HasPrefix(behind, "!=")) {
			p.reportf(words[i], errOutside, "put a ; before it, or quote the value", "another condition begins inside a value")
			return true
		}
	}
	return false
}

// quoter spells what stands between quotes.
var quoter = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// appendSpelling appends the element in canonical text.
func (e *element) appendSpelling(to []byte) []byte {
	if e.kind == quotedElement {
		return append(append(append(to, '"'), quoter.Replace(e.text)...), '"')
	}
	return append(to, e.text...)
}
