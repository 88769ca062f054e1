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

	"github.com/koalagate/koalagate/internal/wordlist"
)

// The limits of a word list. No value of a request that reaches a rule is longer
// than maxEntry bytes. A list of maxEntries takes about 2 GB.
const (
	maxEntry   = 8 << 10
	maxEntries = 64 << 20
)

// Dict is a word list: words, which compare as text, and addresses and blocks of
// addresses. It is immutable and safe for concurrent use. In a list of ten
// million entries an entry takes about 54 bytes.
type Dict struct {
	name     string
	hash     [sha256.Size]byte
	entries  wordlist.Set
	mistakes dictMistakes
	// hasHashes reports that a word has the form of a hashed value, and unhashed is the line
	// of the first word without it, 0 if all words have it.
	hasHashes bool
	unhashed  int
}

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

// Name returns the name that ParseDict was called with.
func (d *Dict) Name() string { return d.name }

// Len returns the number of distinct entries. A small block of addresses (IPv4
// /24 … /31, IPv6 /56 … /64) does not count if earlier blocks cover it.
func (d *Dict) Len() int { return d.entries.Len() }

func (d *Dict) hasAddresses() bool { return d.entries.HasAddresses() }

// contains reports whether the value is in the list. An address is looked up among
// the addresses and blocks alone, because no word is an address.
func (d *Dict) contains(v *value) bool {
	if v.isAddress {
		return d.entries.ContainsAddress(v.address)
	}
	return d.entries.ContainsWord(v.text)
}
