package rules

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// scan calls visit with the index of each of two characters in s, outside quoted
// values, until visit returns false. A quote opens a value where a value may begin:
// after `=`, `~`, `,`, `;`, `[` or else, or at the beginning of s. The result is the index of a
// quote that is not closed, or -1.
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

// opensValue reports whether a quote after this text opens a value.
func opensValue(before string) bool {
	before = strings.TrimRightFunc(before, unicode.IsSpace)
	return before == "" || strings.IndexByte("=~,;[", before[len(before)-1]) >= 0 || strings.HasSuffix(before, " "+elseWord)
}

// closingQuote returns the index of the quote that closes the one at i, or -1.
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

// split cuts s at every separator outside quoted values, trims the pieces, and appends
// them to list.
func (s span) split(list []span, separator byte) []span {
	start := 0
	s.scan(separator, separator, func(i int) bool {
		list = append(list, s.slice(start, i).trim())
		start = i + 1
		return true
	})
	return append(list, s.tail(start).trim())
}

// statements splits s at semicolons. A semicolon at the end is optional.
func (s span) statements(list []span) []span {
	before := len(list)
	list = s.split(list, ';')
	if last := len(list) - 1; last >= before && list[last].empty() {
		list = list[:last]
	}
	return list
}

// pieceBuffer has capacity for the pieces of most statements, so that they need no
// allocation.
type pieceBuffer [8]span

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

// colons returns the indexes of the colons of s between blanks, outside quoted
// values. The ends of s count as blanks.
func (s span) colons() []int {
	text := s.text()
	var indexes []int
	s.scan(':', ':', func(i int) bool {
		if (i == 0 || isBlank(text[i-1])) && (i+1 == len(text) || isBlank(text[i+1])) {
			indexes = append(indexes, i)
		}
		return true
	})
	return indexes
}

// uncomment returns s without the comment that begins with a `#` after a blank,
// outside quoted values.
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

// wantName is the hint for an invalid parameter name.
const wantName = "want letters, digits and _ . : -, beginning with a letter or _"

// name returns the parameter name that s begins with, an empty span if there is none.
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

// isName reports whether s is a parameter name.
func (s span) isName() bool { return !s.empty() && s.name() == s }
