// Package wordlist holds sets of words, addresses and blocks of addresses that may
// have tens of millions of entries. An entry takes about 54 bytes, and a look-up
// takes one or a few accesses to main memory. Package rules parses the files.
//
// The hashes are its own (keySet.home, mediumKey): with hash/maphash, look-ups among two
// million integers took 4 times as long, and decisions by ten lists 3.5 times
// (BenchmarkWordList of package rules, BenchmarkDecideByWordLists of package engine).
// ARCHITECTURE.md has the figures. Tables in huge pages saved at most 11 ns of a look-up,
// so the kernel decides about its pages.
package wordlist

import "net/netip"

// Set is a set of words and of blocks of addresses. The zero value is empty. A
// Set is safe for concurrent look-ups once it has all its entries.
type Set struct {
	words  keySet
	blocks blockSet
}

// AddWord adds a word, which must not be empty. The set keeps no reference to it.
func (s *Set) AddWord(word string) { s.words.insert(wordKey(word)) }

// AddBlock adds the addresses of block, which must be masked, and must not be a
// block of IPv4 addresses that are mapped into IPv6.
func (s *Set) AddBlock(block netip.Prefix) { s.blocks.insert(block) }

// AddAddress adds one address, which must not be an IPv4 address that is mapped
// into IPv6.
func (s *Set) AddAddress(a netip.Addr) { s.blocks.insert(netip.PrefixFrom(a, a.BitLen())) }

// Len returns the number of distinct words and blocks. A block of IPv4 /24 … /31
// or IPv6 /56 … /64 does not count if blocks that were added before cover it.
func (s *Set) Len() int { return s.words.count + s.blocks.len() }

// HasAddresses reports whether the set has an address or a block.
func (s *Set) HasAddresses() bool { return s.blocks.len() > 0 }

// ContainsWord reports whether the set has the word.
func (s *Set) ContainsWord(word string) bool {
	// The two common cases of wordKey are repeated because the compiler inlines
	// them here and not there.
	switch n := len(word); {
	case n <= maxShort:
		return s.words.contains(shortKey(word))
	case n <= maxMedium:
		return s.words.contains(mediumKey(word))
	}
	return s.words.contains(wordKey(word))
}

// ContainsAddress reports whether a lies in one of the blocks. A must not be an
// IPv4 address that is mapped into IPv6, and must not have a zone.
func (s *Set) ContainsAddress(a netip.Addr) bool { return s.blocks.contains(a) }
