package rules

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// The part of a long line that is shown around the position of a finding, in
// characters. A line that is not longer than both together is shown whole.
const (
	shownBefore = 60
	shownAfter  = 60
)

// Text returns the finding for terminals: the line of Error, the line of the file,
// and a caret under the position.
//
//	rules.conf:2:9: error E012: unknown method "cuont"; want direct, count, base, leak, token or hold
//	  rule : [cuont] [act=ask; uid=+] [time=60; count=1] [result=2; return=1]
//	          ^ did you mean "count"?
func (f Finding) Text() string {
	if f.Position.Line == 0 || f.Line == "" && f.Position.Column != 1 { // the line is unknown
		return f.Error()
	}
	shown, indent := f.window()
	var b strings.Builder
	b.WriteString(f.Error() + "\n  " + shown + "\n  " + indent + "^")
	if f.Suggestion != "" {
		b.WriteString(` did you mean "` + f.Suggestion + `"?`)
	}
	return b.String()
}

// window returns the part of the line around the position, and the indentation that
// puts a caret under the position.
func (f Finding) window() (shown, indent string) {
	characters := []rune(f.Line)
	at := min(max(f.Position.Column-1, 0), len(characters))
	from, to := 0, len(characters)
	if len(characters) > shownBefore+shownAfter {
		from = max(0, min(at-shownBefore, to-shownBefore-shownAfter))
		to = min(to, from+shownBefore+shownAfter)
	}
	var line, blanks strings.Builder
	if from > 0 {
		line.WriteString("…")
		blanks.WriteByte(' ')
	}
	for i := from; i < to; i++ {
		c := characters[i]
		if !unicode.IsPrint(c) && c != '\t' {
			c = unicode.ReplacementChar // may be a control character
		}
		line.WriteRune(c)
		if i < at {
			blanks.WriteString(blankFor(c))
		}
	}
	if to < len(characters) {
		line.WriteString("…")
	}
	return line.String(), blanks.String()
}

// blankFor returns blanks of the width of a character in a terminal.
func blankFor(c rune) string {
	if c == '\t' {
		return "\t"
	}
	switch width.LookupRune(c).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return "  "
	}
	return " "
}
