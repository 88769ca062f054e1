package rules

import (
	"math/bits"
	"net/netip"
)

// tileSet is a set of small blocks of addresses, of whatever lengths: it is cut
// into tiles of 64, each an address of IPv4 or a /64 of IPv6, and of a tile it
// keeps which of its 64 are in the set. So a list of /24, /27 and /30 takes one
// look, as one of a single length does. It is laid out as a keySet is, and for
// the same reasons.
type tileSet struct {
	lines []cacheLine // of each key, high names the tile, 0 for none, and low has its bits
	tiles int
	count int // the blocks that were not in the set yet
}

// The marks that tell the tiles of the two families apart, where the number of
// a tile has room.
const (
	tileOfIPv4 = 1
	tileOfIPv6 = 2
)

// The lengths of prefixes that tiles are for. Larger blocks would take more
// than four.
const (
	leastTiledIPv4 = 24
	mostTiledIPv4  = 31 // an address is found sooner in a keySet
	leastTiledIPv6 = 56
	mostTiledIPv6  = 64
)

// tiled tells whether a block stands in tiles.
func tiled(block netip.Prefix) bool {
	if block.Addr().Is4() {
		return block.Bits() >= leastTiledIPv4 && block.Bits() <= mostTiledIPv4
	}
	return block.Bits() >= leastTiledIPv6 && block.Bits() <= mostTiledIPv6
}

// tileOf is the tile that an address is in, and its bit there.
func tileOf(k key, isIPv4 bool) (tile, bit uint64) {
	if isIPv4 {
		a := k.low & 0xffffffff
		return a&^63 | tileOfIPv4, a & 63
	}
	return k.high&^63 | tileOfIPv6, k.high & 63
}

// home is the number of the line where the search for a tile begins.
func (s *tileSet) home(tile uint64) int {
	high, low := bits.Mul64(bits.RotateLeft64(tile, -6)^keySecrets.high, keySecrets.low|1)
	return int(high^low) & (len(s.lines) - 1)
}

// contains tells whether one of the 64 of a tile is in the set.
func (s *tileSet) contains(tile, bit uint64) bool {
	if len(s.lines) == 0 {
		return false
	}
	for i := s.home(tile); ; i = (i + 1) & (len(s.lines) - 1) {
		l := &s.lines[i] // in a row, as in keySet.contains
		switch tile {
		case l[0].high:
			return l[0].low>>(bit&63)&1 != 0
		case l[1].high:
			return l[1].low>>(bit&63)&1 != 0
		case l[2].high:
			return l[2].low>>(bit&63)&1 != 0
		case l[3].high:
			return l[3].low>>(bit&63)&1 != 0
		}
		if l[3].high == 0 {
			return false
		}
	}
}

// insert puts a block that is tiled into the set.
func (s *tileSet) insert(block netip.Prefix) {
	of := mostTiledIPv6
	if block.Addr().Is4() {
		of = block.Addr().BitLen()
	}
	tile, bit := tileOf(addressKey(block.Addr()), block.Addr().Is4())
	number := uint64(1) << (of - block.Bits()) // of addresses, or of /64
	isNew := false
	for ; number >= 64; number -= 64 {
		isNew = s.add(tile, ^uint64(0)) || isNew
		tile += 64
	}
	if number > 0 {
		isNew = s.add(tile, (1<<number-1)<<bit) || isNew
	}
	if isNew {
		s.count++
	}
}

// add puts bits of a tile into the set, and tells whether one was not there.
func (s *tileSet) add(tile, mask uint64) bool {
	if isCrowded(s.tiles, s.lines) {
		s.grow()
	}
	k := s.slot(tile)
	if k.high == 0 {
		k.high = tile
		s.tiles++
	}
	before := k.low
	k.low |= mask
	return k.low != before
}

// slot is that of a tile, or the one that it would have.
func (s *tileSet) slot(tile uint64) *key {
	for i := s.home(tile); ; i = (i + 1) & (len(s.lines) - 1) {
		for n := range s.lines[i] {
			if k := &s.lines[i][n]; k.high == tile || k.high == 0 {
				return k
			}
		}
	}
}

func (s *tileSet) grow() {
	before := s.lines
	s.lines = make([]cacheLine, max(4, 2*len(before)))
	inHugePages(s.lines)
	for i := range before {
		for _, k := range before[i] {
			if k.high != 0 {
				*s.slot(k.high) = k
			}
		}
	}
}
