package wordlist

import (
	"math/bits"
	"net/netip"
)

// tileSet is a set of small blocks of addresses, of any lengths. The address
// space is cut into tiles of 64 units, where a unit is an IPv4 address or an IPv6
// /64, and the set stores one bit per unit of a tile. A list of /24, /27 and /30
// therefore takes one look-up, like a list of a single length. The layout is that
// of keySet, for the same reasons.
type tileSet struct {
	lines []cacheLine // in each key, high is the tile, 0 for none, and low its 64 bits
	tiles int
	count int // inserted blocks that earlier blocks did not cover
}

// The marks of the address families, in the low bits of a tile, which are free.
const (
	tileOfIPv4 = 1
	tileOfIPv6 = 2
)

// The prefix lengths that are stored in tiles. A larger block would take more than
// four tiles.
const (
	leastTiledIPv4 = 24
	mostTiledIPv4  = 31 // a single address is found faster in a keySet
	leastTiledIPv6 = 56
	mostTiledIPv6  = 64
)

// isTiled reports whether a block is stored in tiles.
func isTiled(block netip.Prefix) bool {
	if block.Addr().Is4() {
		return block.Bits() >= leastTiledIPv4 && block.Bits() <= mostTiledIPv4
	}
	return block.Bits() >= leastTiledIPv6 && block.Bits() <= mostTiledIPv6
}

// tileOf returns the tile of an address and the number of its bit there.
func tileOf(k key, isIPv4 bool) (tile, bit uint64) {
	if isIPv4 {
		a := k.low & 0xffffffff
		return a&^63 | tileOfIPv4, a & 63
	}
	return k.high&^63 | tileOfIPv6, k.high & 63
}

// home returns the number of the line where the search for a tile begins.
func (s *tileSet) home(tile uint64) int {
	high, low := bits.Mul64(bits.RotateLeft64(tile, -6)^keySecrets.high, keySecrets.low|1)
	return int(high^low) & (len(s.lines) - 1)
}

// contains reports whether a unit of a tile is in the set.
func (s *tileSet) contains(tile, bit uint64) bool {
	if len(s.lines) == 0 {
		return false
	}
	for i := s.home(tile); ; i = (i + 1) & (len(s.lines) - 1) {
		l := &s.lines[i] // in a row for the reason given in keySet.contains
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

// insert adds a block for which isTiled holds.
func (s *tileSet) insert(block netip.Prefix) {
	unit := mostTiledIPv6 // the prefix length of a unit
	if block.Addr().Is4() {
		unit = block.Addr().BitLen()
	}
	tile, bit := tileOf(addressKey(block.Addr()), block.Addr().Is4())
	units := uint64(1) << (unit - block.Bits())
	isNew := false
	for ; units >= 64; units -= 64 {
		isNew = s.add(tile, ^uint64(0)) || isNew
		tile += 64
	}
	if units > 0 {
		isNew = s.add(tile, (1<<units-1)<<bit) || isNew
	}
	if isNew {
		s.count++
	}
}

// add adds units of a tile and reports whether one of them is new.
func (s *tileSet) add(tile, mask uint64) bool {
	if isCrowded(s.tiles, s.lines) {
		s.grow()
	}
	k := s.slot(tile)
	if k.high == 0 {
		k.high = tile
		s.tiles++
	}
	old := k.low
	k.low |= mask
	return k.low != old
}

// slot returns the slot of a tile, or the free slot where it belongs.
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
	old := s.lines
	s.lines = newLines(2 * len(old))
	for i := range old {
		for _, k := range old[i] {
			if k.high != 0 {
				*s.slot(k.high) = k
			}
		}
	}
}
