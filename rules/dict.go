package rules

import (
	"crypto/sha256"

	"github.com/koalagate/koalagate/internal/wordlist"
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
