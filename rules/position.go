package rules

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Position is a position in a rule file or in the file of a table. Line and Column start
// at 1; Column counts characters, and is 0 for a whole line of a table.
type Position struct {
	File         string
	Line, Column int
}

// String returns the position in the form `rules.conf:12:9`.
func (p Position) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	case p.File == "":
		return fmt.Sprintf("%d:%d", p.Line, p.Column)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Source is the text of one rule file.
type Source struct {
	Name string // the path for findings, as the user wrote it
	Text []byte
}

// line is one line of a rule file.
type line struct {
	file   string
	number int
	text   string // without the line end
}

// span is a part of a line, with its position for findings.
type span struct {
	line     *line
	from, to int // bytes of line.text
}

func whole(l *line) span { return span{l, 0, len(l.text)} }

func (s span) text() string { return s.line.text[s.from:s.to] }

func (s span) empty() bool { return s.from == s.to }

// slice returns the bytes i to j of s.
func (s span) slice(i, j int) span { return span{s.line, s.from + i, s.from + j} }

// tail returns s without its first i bytes.
func (s span) tail(i int) span { return span{s.line, s.from + i, s.to} }

// end returns the empty span after s.
func (s span) end() span { return span{s.line, s.to, s.to} }

func (s span) position() Position {
	column := 1 + utf8.RuneCountInString(s.line.text[:s.from])
	return Position{s.line.file, s.line.number, column}
}

// String returns the position of s for messages about another span. Findings that are not shown do
// not count the characters before it, of which a line may have many.
func (s span) String() string { return s.position().String() }

// trim returns s without surrounding blanks.
func (s span) trim() span {
	text := s.text()
	if text == "" || isGraphic(text[0]) && isGraphic(text[len(text)-1]) {
		return s
	}
	left := len(text) - len(strings.TrimLeftFunc(text, unicode.IsSpace))
	if left == len(text) {
		return s.slice(0, 0)
	}
	return s.slice(left, len(strings.TrimRightFunc(text, unicode.IsSpace)))
}

// isGraphic reports whether a byte is a printable ASCII character, as most bytes of a
// file are.
func isGraphic(b byte) bool { return '!' <= b && b <= '~' }

// mention returns the text of s for a message, shortened to 60 bytes.
func (s span) mention() string { return excerpt(s.text()) }

// excerpt returns the beginning of a long text.
func excerpt(text string) string {
	const maxLength = 60
	if len(text) <= maxLength {
		return text
	}
	cut := maxLength
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

// withoutUser returns a text in which stars stand for the user and the password of an address:
// findings are logged. Columns stay as they are.
func withoutUser(text string) string {
	const mark = "://"
	if !strings.Contains(text, mark) {
		return text
	}
	var b strings.Builder
	b.Grow(len(text))
	end, at := -1, -1 // of the word with the last mark: its end and its last @, found once per word
	for from := 0; ; {
		i := strings.Index(text[from:], mark)
		if i < 0 {
			b.WriteString(text[from:])
			return b.String()
		}
		begin := from + i + len(mark)
		b.WriteString(text[from:begin])
		if from = begin; begin > end {
			end = len(text)
			if length := strings.IndexAny(text[begin:], " \t;\""); length >= 0 { // a password may have a slash that it should not have
				end = begin + length
			}
			at = begin + strings.LastIndexByte(text[begin:end], '@')
		}
		if at > begin {
			b.WriteString(strings.Repeat("*", at-begin))
			from = at
		}
	}
}
