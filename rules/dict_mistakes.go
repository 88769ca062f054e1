package rules

import (
	"bytes"
	"fmt"
)

// dictMistakes are the entries of a word list that were read as words and look like
// something else: authors of lists know the conditions of rule files, and the word
// `10.0.0.1-10.0.0.9` never equals an address. The first of them is
// kept, and the number of the rest.
type dictMistakes struct {
	line  int // of the first; 0 without mistakes
	entry string
	hint  string
	more  int
}

// check records a word that looks like a mistake. Nearly all words pass by their
// first and last bytes.
func (m *dictMistakes) check(line int, word []byte) {
	hint := dictMistake(word)
	switch {
	case hint == "":
	case m.line > 0:
		m.more++
	default:
		m.line, m.entry, m.hint = line, string(word[:min(len(word), maxMention)]), hint
	}
}

// maxMention is the number of bytes of an entry that a finding repeats.
const maxMention = 80

// The hints for mistakes that take more than one form.
const (
	oneEntryPerLine = "write one entry per line, and comments on lines of their own"
	rangesAsBlocks  = "word lists take addresses and blocks; write the range as blocks such as 10.0.0.0/24"
)

// dictMistake returns the hint for a word that looks like a mistake, "" for any
// other word.
func dictMistake(word []byte) string {
	first, last := word[0], word[len(word)-1]
	switch {
	case first == '"' || first == '\'':
		if first == last && len(word) > 2 {
			return "write it without quotes, which are part of the entry"
		}
	case last == ',' || last == ';' || bytes.Contains(word, []byte(" #")):
		return oneEntryPerLine
	}
	end := 0
	for end < len(word) && isAddressByte(word[end]) {
		end++
	}
	switch {
	case end == len(word) || word[end] == '*': // the form of an address, but not an address
		switch {
		case bytes.IndexByte(word, '.') < 0 || !addressLike(string(word)):
		case end == len(word):
			return "it is not a valid address; correct it"
		default:
			return rangesAsBlocks
		}
	case hasAddressForm(word[:end]):
		return mistakeAfterAddress(string(word[:end]), word[end])
	}
	return ""
}

// mistakeAfterAddress returns the hint for a word that begins with text and
// continues with next, if text is an address.
func mistakeAfterAddress(text string, next byte) string {
	if _, ok := parseAddress(text); !ok {
		return ""
	}
	switch next {
	case '-':
		return rangesAsBlocks
	case ' ', '\t', ',', ';', '#':
		return oneEntryPerLine
	}
	return ""
}

// isAddressByte reports whether b may occur in an address.
func isAddressByte(b byte) bool {
	return '0' <= b && b <= '9' || 'a' <= b && b <= 'f' || 'A' <= b && b <= 'F' || b == '.' || b == ':'
}

// warnDictMistakes reports the entries of a list that look like mistakes.
func (p *parser) warnDictMistakes(d *dictDecl, list *Dict) {
	m := &list.mistakes
	if m.line == 0 {
		return
	}
	first := ""
	if m.more > 0 {
		first = fmt.Sprintf(" (the first of %d suspicious entries)", m.more+1)
	}
	p.reportf(d.path, warnDictEntry, m.hint, "the entry %q at %s:%d is read as a word%s", m.entry, list.name, m.line, first)
}
