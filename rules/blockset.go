package rules

import (
	"encoding/binary"
	"net/netip"

	"github.com/gaissmai/bart"
)

// blockSet is a set of blocks of addresses; an address is a block of itself.
type blockSet struct {
	addresses keySet
	tiles     tileSet // the small blocks, of which lists may have many
	// Of larger blocks, lists mostly have few lengths of prefixes. Then an
	// address is looked for under each length, which is quicker than a tree if
	// the blocks lie scattered, and about as quick if they do not.
	lengths []prefixes
	// tree has the larger blocks once their lengths are too many.
	tree bart.Lite
}

// prefixes are blocks of one length of prefix.
type prefixes struct {
	bits int // of 128; those of IPv4 have 96 more than they say
	mask key // has these bits
	keys keySet
}

// maxLengths is the number of lengths beyond which the tree is quicker: each is
// a look for itself, and a wait for memory in long lists.
const maxLengths = 3

// mappedBits are the bits before an IPv4 address that is mapped into IPv6.
const mappedBits = 128 - 32

// addressKey is an address as a key; one of IPv4 is mapped into IPv6.
func addressKey(a netip.Addr) key {
	b := a.As16()
	return key{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

// mask is a key of so many bits.
func mask(bits int) key {
	if bits <= 64 {
		return key{^(^uint64(0) >> bits), 0}
	}
	return key{^uint64(0), ^(^uint64(0) >> (bits - 64))}
}

// masked is the part of k that a mask covers.
func (k key) masked(m key) key { return key{k.high & m.high, k.low & m.low} }

// prefix is the block that begins at k.
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

// contains tells whether a value that is an address is in one of the blocks.
func (s *blockSet) contains(v *value) bool {
	isIPv4 := v.address.Is4()
	for i := range s.lengths {
		// A block of IPv6 that is so large holds no IPv4 address, though it
		// may hold the bits of one that is mapped.
		l := &s.lengths[i]
		if (l.bits >= mappedBits || !isIPv4) && l.keys.contains(v.addressKey.masked(l.mask)) {
			return true
		}
	}
	if s.tree.Size() > 0 && s.tree.Contains(v.address) {
		return true
	}
	// Last, since a look here is a wait for memory in long lists, and the
	// larger blocks are few.
	if s.addresses.contains(v.addressKey) {
		return true
	}
	return s.tiles.contains(tileOf(v.addressKey, isIPv4))
}

// insert puts a block into the set. Its address is that of its beginning, and
// not one of IPv4 that is mapped into IPv6.
func (s *blockSet) insert(block netip.Prefix) {
	if tiled(block) {
		s.tiles.insert(block)
		return
	}
	bits := block.Bits()
	if block.Addr().Is4() {
		bits += mappedBits
	}
	keys := s.of(bits)
	if keys == nil {
		s.tree.Insert(block)
		return
	}
	keys.insert(addressKey(block.Addr()))
}

// of is the set of the blocks of a length, nil if they belong into the tree.
func (s *blockSet) of(bits int) *keySet {
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
