package wordlist

import (
	"math/bits"
	"net/netip"
	"runtime"
)

// Missing returns the number of entries of s that other does not contain as an entry. Of
// small blocks (IPv4 /24 … /31, IPv6 /56 … /64) it counts the fewest blocks that cover
// the missing addresses, because a set does not keep their lengths. It takes about 50 ns
// per entry.
func (s *Set) Missing(other *Set) int {
	return s.words.missing(&other.words) + s.blocks.missing(&other.blocks)
}

// missing returns the number of keys of s that are not in other.
func (s *keySet) missing(other *keySet) int {
	n := 0
	if s.hasZero && !other.hasZero {
		n++
	}
	for i := range s.lines {
		if i%yieldLines == 0 {
			runtime.Gosched()
		}
		for _, k := range s.lines[i] {
			if k != (key{}) && !other.contains(k) {
				n++
			}
		}
	}
	return n
}

func (s *blockSet) missing(other *blockSet) int {
	n := s.addresses.missing(&other.addresses) + s.tiles.missing(&other.tiles)
	for i := range s.lengths {
		for k := range s.lengths[i].keys.all() {
			if !other.has(k.prefix(s.lengths[i].bits)) {
				n++
			}
		}
	}
	for block := range s.tree.All() {
		if !other.has(block) {
			n++
		}
	}
	return n
}

// has reports whether a block that is not stored in tiles, and is no single address, is
// an entry.
func (s *blockSet) has(block netip.Prefix) bool {
	if s.tree.Get(block) {
		return true
	}
	length := block.Bits()
	if block.Addr().Is4() {
		length += mappedBits
	}
	for i := range s.lengths {
		if s.lengths[i].bits == length {
			return s.lengths[i].keys.contains(addressKey(block.Addr()))
		}
	}
	return false
}

// groupTiles is the number of tiles of the largest block in tiles: an IPv4 /24 or an
// IPv6 /56.
const groupTiles = 4

// missing returns the number of blocks that cover the units of s that are not in other.
func (s *tileSet) missing(other *tileSet) int {
	n := 0
	for i := range s.lines {
		for _, k := range s.lines[i] {
			if k.high == 0 {
				continue
			}
			units := k.low &^ other.units(k.high)
			if units == ^uint64(0) && s.isGroupMissing(other, k.high) {
				if k.high>>6&(groupTiles-1) == 0 {
					n++ // the first tile stands for all of its group
				}
				continue
			}
			n += blocksIn(units, 64)
		}
	}
	return n
}

// isGroupMissing reports whether all units of the group of a tile are in s and not in
// other.
func (s *tileSet) isGroupMissing(other *tileSet, tile uint64) bool {
	first := tile &^ ((groupTiles - 1) << 6)
	for i := range uint64(groupTiles) {
		if at := first + i<<6; s.units(at)&^other.units(at) != ^uint64(0) {
			return false
		}
	}
	return true
}

// units returns the units of a tile.
func (s *tileSet) units(tile uint64) uint64 {
	if len(s.lines) == 0 {
		return 0
	}
	if k := s.slot(tile); k.high == tile {
		return k.low
	}
	return 0
}

// blocksIn returns the fewest aligned blocks that cover the bits in a mask of the given
// width, a power of two.
func blocksIn(mask uint64, width int) int {
	switch {
	case mask == 0:
		return 0
	case bits.OnesCount64(mask) == width:
		return 1
	}
	half := width / 2
	return blocksIn(mask&(1<<half-1), half) + blocksIn(mask>>half, half)
}
