package wordlist

import (
	"encoding/binary"
	"net/netip"

	"github.com/gaissmai/bart"
)

// blockSet is a set of blocks of addresses. An address is a block of one.
type blockSet struct {
	addresses keySet
	tiles     tileSet // the small blocks, of which lists may have many
	// Most lists have few distinct prefix lengths among their larger blocks.
	// Then a look-up tries each length, which is faster than a tree if the
	// blocks are scattered, and about as fast if they are not.
	lengths []prefixes
	// tree has all larger blocks once there are more than maxLengths lengths.
	tree bart.Lite
}

// prefixes are the blocks of one prefix length.
type prefixes struct {
	bits int // of 128: an IPv4 block has 96 more than its prefix length
	mask key // the first bits are set
	keys keySet
}

// maxLengths is the number of lengths above which the tree is faster: each one
// takes a look-up of its own, which waits for memory in long lists.
const maxLengths = 3

// mappedBits is the number of bits before an IPv4 address mapped into IPv6.
const mappedBits = 128 - 32

// addressKey returns an address as a key, with IPv4 addresses mapped into IPv6.
func addressKey(a netip.Addr) key {
	b := a.As16()
	return key{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

// mask returns a key whose first bits are set.
func mask(bits int) key {
	if bits <= 64 {
		return key{^(^uint64(0) >> bits), 0}
	}
	return key{^uint64(0), ^(^uint64(0) >> (bits - 64))}
}

// masked returns k with the bits outside of m cleared.
func (k key) masked(m key) key { return key{k.high & m.high, k.low & m.low} }

// prefix returns the block that begins at k. Its length is given in bits of 128.
func (k key) prefix(bits int) netip.Prefix {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], k.high)
	binary.BigEndian.PutUint64(b[8:], k.low)
	a := netip.AddrFrom16(b)
	if bits >= mappedBits && a.Is4In6() {
		return netip.PrefixFrom(a.Unmap(), bits-mappedBits)
	}
	return netip.PrefixFrom(a, bits)
}

func (s *blockSet) len() int {
	n := s.addresses.count + s.tiles.count + s.tree.Size()
	for i := range s.lengths {
		n += s.lengths[i].keys.count
	}
	return n
}

// contains reports whether an address is in one of the blocks.
func (s *blockSet) contains(a netip.Addr) bool {
	k, isIPv4 := addressKey(a), a.Is4()
	for i := range s.lengths {
		// An IPv6 block with a prefix shorter than mappedBits contains no IPv4
		// address, even if it contains the bits of a mapped one.
		l := &s.lengths[i]
		if (l.bits >= mappedBits || !isIPv4) && l.keys.contains(k.masked(l.mask)) {
			return true
		}
	}
	if s.tree.Size() > 0 && s.tree.Contains(a) {
		return true
	}
	// Last, because these look-ups wait for memory in long lists, and the larger
	// blocks are few.
	if s.addresses.contains(k) {
		return true
	}
	return s.tiles.contains(tileOf(k, isIPv4))
}

// insert adds a masked block whose address is not an IPv4 address mapped into
// IPv6.
func (s *blockSet) insert(block netip.Prefix) {
	if isTiled(block) {
		s.tiles.insert(block)
		return
	}
	bits := block.Bits()
	if block.Addr().Is4() {
		bits += mappedBits
	}
	keys := s.keysOf(bits)
	if keys == nil {
		s.tree.Insert(block)
		return
	}
	keys.insert(addressKey(block.Addr()))
}

// keysOf returns the set of the blocks of a length, nil if they belong in the
// tree.
func (s *blockSet) keysOf(bits int) *keySet {
	if bits == 128 {
		return &s.addresses
	}
	if s.tree.Size() > 0 {
		return nil
	}
	for i := range s.lengths {
		if s.lengths[i].bits == bits {
			return &s.lengths[i].keys
		}
	}
	if len(s.lengths) == maxLengths {
		s.plant()
		return nil
	}
	s.lengths = append(s.lengths, prefixes{bits: bits, mask: mask(bits)})
	return &s.lengths[len(s.lengths)-1].keys
}

// plant moves the blocks of all lengths into the tree.
func (s *blockSet) plant() {
	for i := range s.lengths {
		for k := range s.lengths[i].keys.all() {
			s.tree.Insert(k.prefix(s.lengths[i].bits))
		}
		s.lengths[i] = prefixes{}
	}
	s.lengths = nil
}
