package rules

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// parseList reads values separated by commas.
func (p *parser) parseList(c *Condition, operand span) *Condition {
	var pieces pieceBuffer
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
	ok := true
	var short [96]byte
	written := short[:0]
	for i := range elements {
		ok = p.addElement(c, &elements[i], places[i]) && ok
		if i > 0 {
			written = append(written, ',')
		}
		written = elements[i].appendText(written)
	}
	if !ok {
		return nil
	}
	slices.Sort(c.texts)
	c.texts = slices.Clip(slices.Compact(c.texts))
	c.integers = merge(c.integers, cmp.Compare)
	c.addresses = merge(c.addresses, netip.Addr.Compare)
	return setText(c, operand, negate(c, "="), written)
}

// addElement adds an element to the condition, in the form in which the list
// compares it. It returns false if it reports an error.
func (p *parser) addElement(c *Condition, e *element, at span) bool {
	switch e.kind {
	case wordElement:
		if c.ranged {
			p.reportf(at, errWordInRange, "a list with a range, a block or a pattern compares integers and addresses; quote the word to compare it as text", "the word %q is in a list of ranges", at.mention())
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
			m := outOfInt64(e.text)
			p.reportf(at, m.code, m.hint, "%s", m.message)
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
		p.reportf(s, errNoValue, "write a value, or remove the comma", "missing value")
		return element{}, false
	}
	if s.text()[0] == '"' {
		return p.parseQuoted(s, &valueQuotes)
	}
	if p.misplacedJoint(s) || p.forgottenSemicolon(s) {
		return element{}, false
	}
	if s.text() == "+" {
		p.reportf(s, errPlus, "write it alone, put a ; before the next condition, or quote it to compare with a plus sign", "+ means any value and cannot be combined with other values")
		return element{}, false
	}
	if p.quoteInside(s) {
		return element{}, false
	}
	e, mistake := classify(s.text())
	if mistake == nil {
		return e, true
	}
	if mistake.hint == "" {
		mistake.hint = c.tilde(s.mention())
	}
	p.reportf(s, mistake.code, mistake.hint, "%s", mistake.message)
	return e, mistake.code.ID[0] == 'W'
}

// quoteInside reports a quote inside a value that is not quoted.
func (p *parser) quoteInside(s span) bool {
	i := strings.IndexByte(s.text(), '"')
	if i < 0 {
		return false
	}
	p.reportf(s.tail(i), errQuote, "quote the whole value", "quote inside a value")
	return true
}

// quotes are the escapes of a quoted value.
type quotes struct {
	escaped string // the characters that follow a backslash
	hint    string
	plain   func(byte) byte // what a character without a backslash stands for
}

var valueQuotes = quotes{`"\`, `inside quotes, want \" for a quote or \\ for a backslash`, func(b byte) byte { return b }}

// parseQuoted reads a quoted value.
func (p *parser) parseQuoted(s span, q *quotes) (element, bool) {
	text := s.text()
	end := closingQuote(text, 0)
	if end < 0 {
		p.reportf(s, errQuote, `close it with "`, "the quote is not closed")
		return element{}, false
	}
	if rest := s.tail(end + 1).trim(); !rest.empty() {
		p.reportf(rest, errQuote, "want a comma, {~} or the end of the condition", "text after a quoted value")
		return element{}, false
	}
	var b strings.Builder
	for i := 1; i < end; i++ {
		if text[i] != '\\' {
			b.WriteByte(q.plain(text[i]))
			continue
		}
		if i++; strings.IndexByte(q.escaped, text[i]) < 0 {
			p.reportf(s.slice(i-1, i+1), errQuote, q.hint, `invalid escape %s`, firstRune(text[i-1:i])+firstRune(text[i:]))
			return element{}, false
		}
		b.WriteByte(text[i])
	}
	e := element{kind: quotedElement, text: b.String()}
	if e.text == "" || e.text != strings.TrimSpace(e.text) {
		p.reportf(s, warnNoEffect, "values of requests are trimmed before they are compared, and an empty one counts as absent", "no value ever equals %s", s.mention())
	}
	return e, true
}

// forgottenSemicolon reports a value that contains another condition.
func (p *parser) forgottenSemicolon(s span) bool {
	if strings.IndexByte(s.text(), '=') < 0 {
		return false // the usual case
	}
	words := s.fields()
	for i := 1; i < len(words); i++ {
		name := words[i].name()
		after := span{s.line, name.to, s.to}.trim().text()
		if !name.empty() && (strings.HasPrefix(after, "=") || strings.HasPrefix(after, "!=")) {
			p.reportf(words[i], errOutside, "put a ; before it, or quote the value", "another condition begins inside a value")
			return true
		}
	}
	return false
}

// appendText appends the canonical text of the element.
func (e *element) appendText(to []byte) []byte {
	if e.kind == quotedElement {
		return append(append(append(to, '"'), quoter.Replace(e.text)...), '"')
	}
	return append(to, e.text...)
}
