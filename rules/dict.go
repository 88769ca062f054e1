package rules

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"unicode/utf8"
)

// The bounds of a word list. No value of a request that a rule sees is longer
// than maxEntry, in bytes; maxEntries take about 2 GB.
const (
	maxEntry   = 8 << 10
	maxEntries = 64 << 20
)

// Dict is a word list: words, which compare as text, and addresses and blocks
// of addresses. It is immutable and safe for concurrent use. Ten million
// entries take about 54 bytes each.
type Dict struct {
	name   string
	hash   [sha256.Size]byte
	words  keySet
	blocks blockSet
	slips  dictSlips
}

// ParseDict reads a word list, one entry a line. Entries are trimmed, blank
// lines and those that begin with # dropped. The error names the line.
func ParseDict(name string, r io.Reader) (*Dict, error) {
	d := &Dict{name: name}
	sum := sha256.New()
	lines := bufio.NewReaderSize(io.TeeReader(r, sum), 2*maxEntry)
	for number := 1; ; number++ {
		text, err := lines.ReadSlice('\n')
		last := errors.Is(err, io.EOF)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("%s:%d: the line is longer than %d bytes; want one entry a line", name, number, 2*maxEntry)
		case err != nil && !last:
			return nil, fmt.Errorf("%s:%d: %w", name, number, err)
		}
		if number == 1 {
			if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
				return nil, fmt.Errorf("%s:1: the file is UTF-16; save it as UTF-8", name)
			}
			text = bytes.TrimPrefix(text, []byte(byteOrderMark))
		}
		if fault := d.add(number, bytes.TrimSpace(text)); fault != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, number, fault)
		}
		breathe(number)
		if last {
			sum.Sum(d.hash[:0])
			return d, nil
		}
	}
}

// add takes one trimmed line, and its number.
func (d *Dict) add(line int, entry []byte) error {
	switch {
	case len(entry) == 0 || entry[0] == '#':
		return nil
	case len(entry) > maxEntry:
		return fmt.Errorf("the entry is longer than %d bytes; no value is", maxEntry)
	case bytes.IndexByte(entry, 0) >= 0:
		return errors.New("the entry holds a NUL byte; want a text file in UTF-8")
	case !utf8.Valid(entry):
		return errors.New("the entry is not UTF-8; save the list as UTF-8; is it GBK now?")
	case d.Len() >= maxEntries:
		return fmt.Errorf("the list has more than %d entries", maxEntries)
	}
	if !hasAddressForm(entry) && bytes.IndexByte(entry, '/') < 0 {
		d.word(line, entry)
		return nil
	}
	text := string(entry)
	if a, ok := parseAddress(text); ok {
		d.blocks.insert(netip.PrefixFrom(a, a.BitLen()))
		return nil
	}
	if left, _, ok := strings.Cut(text, "/"); ok && addressLike(left) {
		block, err := parseBlock(text)
		if err != nil {
			return fmt.Errorf("%q is not a block of addresses; want one as 10.0.0.0/8 or 2001:db8::/32, alone on its line", text)
		}
		d.blocks.insert(block.Masked())
		return nil
	}
	d.word(line, entry)
	return nil
}

// word takes an entry that is no address and no block.
func (d *Dict) word(line int, entry []byte) {
	d.words.insert(wordKey(string(entry)))
	d.slips.look(line, entry)
}

// Name is the name that the list was parsed under.
func (d *Dict) Name() string { return d.name }

// Len is the number of different entries; a small block of addresses that lies
// in those before it does not count.
func (d *Dict) Len() int { return d.words.count + d.blocks.len() }

func (d *Dict) hasAddresses() bool { return d.blocks.len() > 0 }

// contains tells whether the value is in the list. No word is an address.
func (d *Dict) contains(v *value) bool {
	if v.isAddress {
		return d.blocks.contains(v)
	}
	// As wordKey, with a call less for each word: see mediumKey.
	switch n := len(v.text); {
	case n <= maxShort:
		return d.words.contains(shortKey(v.text))
	case n <= maxMedium:
		return d.words.contains(mediumKey(v.text))
	}
	return d.words.contains(wordKey(v.text))
}
