package wordlist

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
)

// TestTilesMatchBlocks adds adjacent and nested blocks of every length that is
// stored in tiles, and compares each answer with a search through all blocks.
func TestTilesMatchBlocks(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 5))
	var set tileSet
	var blocks []netip.Prefix
	for range 600 {
		block := randomBlock(random)
		blocks = append(blocks, block)
		before, known := set.count, slices.Contains(blocks[:len(blocks)-1], block)
		set.insert(block)
		if known && set.count != before {
			t.Fatalf("%v is counted twice", block)
		}
	}
	found := 0
	for range 20_000 {
		a := randomBlock(random).Addr()
		want := slices.ContainsFunc(blocks, func(b netip.Prefix) bool { return b.Contains(a) })
		tile, bit := tileOf(addressKey(a), a.Is4())
		if set.contains(tile, bit) != want {
			t.Fatalf("%v is in the set: %v; want %v", a, !want, want)
		}
		if want {
			found++
		}
	}
	if found < 1000 || found > 19_000 {
		t.Errorf("%d of 20000 are found; want a mix of hits and misses", found)
	}
}

// randomBlock returns a block that is stored in tiles. All blocks lie among a few
// thousand addresses, so that they overlap.
func randomBlock(random *rand.Rand) netip.Prefix {
	if random.IntN(2) == 0 {
		a := netip.AddrFrom4([4]byte{255, 255, byte(random.IntN(64) + 192), byte(random.Uint32())})
		return netip.PrefixFrom(a, leastTiledIPv4+random.IntN(mostTiledIPv4-leastTiledIPv4+1)).Masked()
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], uint64(random.IntN(1<<14)))
	return netip.PrefixFrom(netip.AddrFrom16(b), leastTiledIPv6+random.IntN(mostTiledIPv6-leastTiledIPv6+1)).Masked()
}

func TestTileBoundaries(t *testing.T) {
	for _, c := range []struct {
		block   string
		in, out []string
	}{
		{"0.0.0.0/24", []string{"0.0.0.0", "0.0.0.63", "0.0.0.64", "0.0.0.255"}, []string{"0.0.1.0", "255.255.255.255"}},
		{"255.255.255.128/25", []string{"255.255.255.128", "255.255.255.191", "255.255.255.255"}, []string{"255.255.255.127", "0.0.0.0"}},
		{"10.0.0.64/26", []string{"10.0.0.64", "10.0.0.127"}, []string{"10.0.0.63", "10.0.0.128"}},
		{"10.0.0.62/31", []string{"10.0.0.62", "10.0.0.63"}, []string{"10.0.0.61", "10.0.0.64"}},
		{"0.0.0.0/31", []string{"0.0.0.0", "0.0.0.1"}, []string{"0.0.0.2", "0.0.0.64"}},
		{"::/64", []string{"::", "::ffff:0:0:0"}, []string{"0:0:0:1::", "0.0.0.0"}},
		{"ffff:ffff:ffff:ff00::/56", []string{"ffff:ffff:ffff:ff00::", "ffff:ffff:ffff:ffff::1"}, []string{"ffff:ffff:ffff:feff::"}},
		{"2001:db8:0:3e::/63", []string{"2001:db8:0:3e::", "2001:db8:0:3f::9"}, []string{"2001:db8:0:3d::", "2001:db8:0:40::"}},
	} {
		var set blockSet
		set.insert(netip.MustParsePrefix(c.block))
		for want, list := range map[bool][]string{true: c.in, false: c.out} {
			for _, text := range list {
				a := netip.MustParseAddr(text)
				if set.contains(a) != want {
					t.Errorf("%s is in %s: %v; want %v", a, c.block, !want, want)
				}
			}
		}
		if set.len() != 1 || len(set.tiles.lines) == 0 {
			t.Errorf("%s makes %d blocks in %d lines of tiles; want one block in tiles", c.block, set.len(), len(set.tiles.lines))
		}
	}
}
