package rules

import (
	"bytes"
	"fmt"
)

// dictSlips are the entries of a word list that are taken as words and look like
// something else: a list is edited by people who know its rule file's conditions,
// and no address is ever equal to the word `10.0.0.1-10.0.0.9`. The first is
// kept, and of the others their number.
type dictSlips struct {
	line  int
	entry string
	hint  string
	more  int
}

// look notes a word if it looks like a slip. Nearly all words are passed over by
// their first and last bytes.
func (s *dictSlips) look(line int, word []byte) {
	hint := dictSlip(word)
	switch {
	case hint == "":
	case s.line > 0:
		s.more++
	default:
		s.line, s.entry, s.hint = line, string(word[:min(len(word), maxMention)]), hint
	}
}

// maxMention bounds what is told of an entry, in bytes.
const maxMention = 80

// What to do about slips that are made in more than one way.
const (
	oneEntryALine  = "write one entry a line, and comments on lines of their own"
	rangesAsBlocks = "a list takes addresses and blocks; write a range as blocks, like 10.0.0.0/24"
)

// dictSlip is what to do about a word that looks like a slip, "" for any other.
func dictSlip(word []byte) string {
	first, last := word[0], word[len(word)-1]
	switch {
	case first == '"' || first == '\'':
		if first == last && len(word) > 2 {
			return "write it without quotes, which are part of the entry"
		}
	case last == ',' || last == ';' || bytes.Contains(word, []byte(" #")):
		return oneEntryALine
	}
	end := 0
	for end < len(word) && isAddressByte(word[end]) {
		end++
	}
	switch {
	case end == len(word) || word[end] == '*': // of the form of an address, and none
		switch {
		case bytes.IndexByte(word, '.') < 0 || !addressLike(string(word)):
		case end == len(word):
			return "it is no address; correct it"
		default:
			return rangesAsBlocks
		}
	case hasAddressForm(word[:end]):
		return behindAddress(string(word[:end]), word[end])
	}
	return ""
}

// behindAddress is what to do about a word that begins with text and goes on with
// next, if text is an address.
func behindAddress(text string, next byte) string {
	if _, ok := parseAddress(text); !ok {
		return ""
	}
	switch next {
	case '-':
		return rangesAsBlocks
	case ' ', '\t', ',', ';', '#':
		return oneEntryALine
	}
	return ""
}

// isAddressByte tells whether addresses hold b.
func isAddressByte(b byte) bool {
	return '0' <= b && b <= '9' || 'a' <= b && b <= 'f' || 'A' <= b && b <= 'F' || b == '.' || b == ':'
}

// warnDictSlips reports the entries of a list that look like slips.
func (p *parser) warnDictSlips(d *dictDecl, list *Dict) {
	s := &list.slips
	if s.line == 0 {
		return
	}
	others := ""
	if s.more > 0 {
		others = fmt.Sprintf(", one of %d that look like slips", s.more+1)
	}
	p.reportf(d.path, warnDictEntry, s.hint, "the entry %q at %s:%d is taken as a word%s", s.entry, list.name, s.line, others)
}
