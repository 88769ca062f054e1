package rules

import (
	"fmt"
	"strings"
)

// maxGlobs is the maximum number of patterns of a condition.
const maxGlobs = 64

// parseGlobs reads the operand of `~`: patterns separated by commas.
func parseGlobs(p *parser, _ *ruleDecl, c *Condition, operand span) *Condition {
	var pieces pieceBuffer
	var short [96]byte
	written := short[:0]
	var patterns []string
	for i, piece := range operand.split(pieces[:0], ',') {
		s := p.joint(c, piece)
		if i == maxGlobs {
			p.reportf(s, errGlobs, "put the values into a word list, or write several rules", "the condition on %s has more than %d patterns", c.Name, maxGlobs)
			return nil
		}
		text, ok := p.parseGlob(s)
		if !ok {
			return nil
		}
		patterns = append(patterns, text)
		if i > 0 {
			written = append(written, ',')
		}
		written = append(written, s.text()...)
	}
	c.form, c.globs = formGlob, newGlobs(patterns)
	return setText(c, operand, negate(c, "~"), written)
}

// patternQuotes are the escapes of a pattern in quotes.
var patternQuotes = quotes{`"\*?`, `inside the quotes of a pattern, want \", \\, \* or \? for the character itself`, wildcard}

// wildcard returns the wildcard that a character of a pattern stands for, or else the
// character.
func wildcard(b byte) byte {
	switch b {
	case '*':
		return anyText
	case '?':
		return anyCharacter
	}
	return b
}

// parseGlob reads a pattern as the text from which newGlobs makes one.
func (p *parser) parseGlob(s span) (text string, ok bool) {
	switch {
	case s.empty():
		p.reportf(s, errNoValue, `write a pattern such as "*bot*"`, "missing pattern")
		return "", false
	case s.text()[0] == '"':
		e, ok := p.parseQuoted(s, &patternQuotes)
		return e.text, ok
	case s.text()[0] == '=' || s.text()[0] == '~':
		p.reportf(s, errOperator, "write a single ~, or quote the pattern", "unknown operator ~%s", s.text()[:1])
		return "", false
	case p.misplacedJoint(s) || p.forgottenSemicolon(s) || p.quoteInside(s):
		return "", false
	}
	if strings.HasPrefix(s.text(), "^") || strings.HasPrefix(s.text(), ".*") || strings.HasSuffix(s.text(), "$") {
		p.reportf(s, warnLooksLike, "a pattern is compared with the whole value, * is any text, and ? is one character; quote it if this is intended",
			"%q looks like a regular expression", s.mention())
	}
	coded := []byte(s.text())
	for i := range coded {
		coded[i] = wildcard(coded[i])
	}
	return string(coded), true
}

// tilde returns the hint to write a pattern for a word with asterisks.
func (c *Condition) tilde(word string) string {
	if strings.Trim(word, "*") == "" {
		return fmt.Sprintf("write %s%s+ for %s value; quote it if it is a word", c.Name, negate(c, "="), map[bool]string{false: "any", true: "no"}[c.Negated])
	}
	return fmt.Sprintf("write %s %s %s for a pattern, in which * is any text; quote it if it is a word", c.Name, negate(c, "~"), word)
}
