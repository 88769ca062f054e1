package rules

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// The limits of a word list. No value of a request that reaches a rule is longer
// than maxEntry bytes. A list of maxEntries takes about 2 GB.
const (
	maxEntry   = 8 << 10
	maxEntries = 64 << 20
)

// ParseDict reads a word list with one entry per line. It trims entries and skips
// blank lines and lines that begin with #. Errors name the list and the line, and
// wrap the errors of r.
func ParseDict(name string, r io.Reader) (*Dict, error) {
	d := &Dict{name: name}
	sum := sha256.New()
	lines := bufio.NewReaderSize(io.TeeReader(r, sum), 2*maxEntry)
	for number := 1; ; number++ {
		text, err := lines.ReadSlice('\n')
		last := errors.Is(err, io.EOF)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("%s:%d: the line is longer than %d bytes; want one entry per line", name, number, 2*maxEntry)
		case err != nil && !last:
			return nil, fmt.Errorf("%s:%d: %w", name, number, err)
		}
		if number == 1 {
			if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
				return nil, fmt.Errorf("%s:1: the file is UTF-16; save it as UTF-8", name)
			}
			text = bytes.TrimPrefix(text, []byte(byteOrderMark))
		}
		if err := d.addLine(number, bytes.TrimSpace(text)); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, number, err)
		}
		yieldAt(number)
		if last {
			sum.Sum(d.hash[:0])
			return d, nil
		}
	}
}

// addLine adds the entry of a trimmed line.
func (d *Dict) addLine(number int, entry []byte) error {
	switch {
	case len(entry) == 0 || entry[0] == '#':
		return nil
	case len(entry) > maxEntry:
		return fmt.Errorf("the entry is longer than %d bytes, which no value is", maxEntry)
	case bytes.IndexByte(entry, 0) >= 0:
		return errors.New("the entry contains a NUL byte; want a text file in UTF-8")
	case !utf8.Valid(entry):
		return errors.New("the entry is not UTF-8 (GBK?); save the list as UTF-8")
	case d.Len() >= maxEntries:
		return fmt.Errorf("the list has more than %d entries", maxEntries)
	}
	if !hasAddressForm(entry) && bytes.IndexByte(entry, '/') < 0 {
		d.addWord(number, entry)
		return nil
	}
	text := string(entry)
	if a, ok := parseAddress(text); ok {
		d.entries.AddAddress(a)
		return nil
	}
	if left, _, ok := strings.Cut(text, "/"); ok && addressLike(left) {
		block, err := parseBlock(text)
		if err != nil {
			return fmt.Errorf("%q is not a block of addresses; want a block such as 10.0.0.0/8 or 2001:db8::/32, alone on its line", text)
		}
		d.entries.AddBlock(block.Masked())
		return nil
	}
	d.addWord(number, entry)
	return nil
}

// addWord adds an entry that is neither an address nor a block.
func (d *Dict) addWord(line int, entry []byte) {
	d.entries.AddWord(string(entry))
	if !d.hasHashes || d.unhashed == 0 {
		if hasHashForm(entry) {
			d.hasHashes = true
		} else if d.unhashed == 0 {
			d.unhashed = line
		}
	}
	d.mistakes.check(line, entry)
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
