package rules

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// line is one line of a rule file.
type line struct {
	file   string
	number int
	text   string // without its end
}

// span is a piece of a line: what the lexer cuts a statement into. It knows
// where it stands, so every finding can point.
type span struct {
	line     *line
	from, to int // bytes of line.text
}

func whole(l *line) span { return span{l, 0, len(l.text)} }

func (s span) text() string { return s.line.text[s.from:s.to] }

func (s span) empty() bool { return s.from == s.to }

// slice is the piece of s from byte i to byte j of it.
func (s span) slice(i, j int) span { return span{s.line, s.from + i, s.from + j} }

// tail is s from its byte i on.
func (s span) tail(i int) span { return span{s.line, s.from + i, s.to} }

// end is the place behind s.
func (s span) end() span { return span{s.line, s.to, s.to} }

// trim is s without the blanks around it.
func (s span) trim() span {
	text := s.text()
	if text == "" || isInk(text[0]) && isInk(text[len(text)-1]) {
		return s
	}
	left := len(text) - len(strings.TrimLeftFunc(text, unicode.IsSpace))
	if left == len(text) {
		return s.slice(0, 0)
	}
	return s.slice(left, len(strings.TrimRightFunc(text, unicode.IsSpace)))
}

// isInk tells whether a byte is a character that is no blank. It may say no
// where it is: most of a file is such bytes.
func isInk(b byte) bool { return '!' <= b && b <= '~' }

func (s span) position() Position {
	column := 1 + utf8.RuneCountInString(s.line.text[:s.from])
	return Position{s.line.file, s.line.number, column}
}

// mention is the text of s as a message repeats it: short, on one line.
func (s span) mention() string {
	const enough = 60
	text := s.text()
	if len(text) <= enough {
		return text
	}
	cut := enough
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

// scan calls visit for the places of two characters in s, outside quoted
// values, until visit returns false or s ends. A quote opens a value where a
// value may begin: behind `=`, `,`, `;` or `[`, or at the beginning of s. The
// result is the place of a quote that is not closed, or -1.
func (s span) scan(one, other byte, visit func(i int) bool) int {
	text := s.text()
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case one, other:
			if !visit(i) {
				return -1
			}
		case '"':
			if !opensValue(text[:i]) {
				continue
			}
			end := closingQuote(text, i)
			if end < 0 {
				return i
			}
			i = end
		}
	}
	return -1
}

// opensValue tells whether a quote behind this text opens a value.
func opensValue(before string) bool {
	before = strings.TrimRightFunc(before, unicode.IsSpace)
	return before == "" || strings.IndexByte("=,;[", before[len(before)-1]) >= 0
}

// closingQuote is the place of the quote that closes the one at i, or -1.
func closingQuote(text string, i int) int {
	for j := i + 1; j < len(text); j++ {
		switch text[j] {
		case '\\':
			j++
		case '"':
			return j
		}
	}
	return -1
}

// split cuts s at every separator outside quoted values, and trims the pieces.
// It appends them to list: callers who read many lines hand it room.
func (s span) split(list []span, separator byte) []span {
	start := 0
	s.scan(separator, separator, func(i int) bool {
		list = append(list, s.slice(start, i).trim())
		start = i + 1
		return true
	})
	return append(list, s.tail(start).trim())
}

// statements is split at semicolons. One at the end is optional.
func (s span) statements(list []span) []span {
	before := len(list)
	list = s.split(list, ';')
	if last := len(list) - 1; last >= before && list[last].empty() {
		list = list[:last]
	}
	return list
}

// room is for the pieces of most statements, so that they need no allocation.
type room [8]span

// cut cuts s at the first separator and trims both pieces.
func (s span) cut(separator byte) (before, after span, found bool) {
	i := strings.IndexByte(s.text(), separator)
	if i < 0 {
		return s.trim(), s.end(), false
	}
	return s.slice(0, i).trim(), s.tail(i + 1).trim(), true
}

// fields cuts s at blanks.
func (s span) fields() []span {
	var list []span
	for rest := s.trim(); !rest.empty(); {
		end := strings.IndexFunc(rest.text(), unicode.IsSpace)
		if end < 0 {
			end = len(rest.text())
		}
		list = append(list, rest.slice(0, end))
		rest = rest.tail(end).trim()
	}
	return list
}

// colons are the places of the colons of s that stand between blanks, the
// ends of s among them, outside quoted values.
func (s span) colons() []int {
	text := s.text()
	var places []int
	s.scan(':', ':', func(i int) bool {
		if (i == 0 || isBlank(text[i-1])) && (i+1 == len(text) || isBlank(text[i+1])) {
			places = append(places, i)
		}
		return true
	})
	return places
}

// uncomment is s without the comment that a `#` after a blank begins, outside
// quoted values.
func (s span) uncomment() span {
	text, end := s.text(), s.to-s.from
	s.scan('#', '#', func(i int) bool {
		before, _ := utf8.DecodeLastRuneInString(text[:i])
		if i == 0 || unicode.IsSpace(before) {
			end = i
			return false
		}
		return true
	})
	return s.slice(0, end).trim()
}

func isBlank(b byte) bool { return b == ' ' || b == '\t' }

// wantName is the hint where something is not the name of a parameter.
const wantName = "want letters, digits and _ . : -, beginning with a letter or _"

// name is the name of a parameter that s begins with; empty if it begins with
// none.
func (s span) name() span {
	text := s.text()
	for i := range len(text) {
		if !inName(text[i], i == 0) {
			return s.slice(0, i)
		}
	}
	return s
}

func inName(b byte, first bool) bool {
	switch {
	case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', b == '_':
		return true
	case '0' <= b && b <= '9', b == '.', b == ':', b == '-':
		return !first
	}
	return false
}

// isName tells whether all of s is the name of a parameter.
func (s span) isName() bool { return !s.empty() && s.name() == s }
