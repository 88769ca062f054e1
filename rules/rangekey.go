package rules

import (
	"cmp"
	"encoding/binary"
	"net/netip"
)

// key is an integer or an address as a number of 128 bits, so that one kind of
// tree finds both.
type key struct{ high, low uint64 }

// integerKey returns an integer as a key. Keys sort as the integers do.
func integerKey(n int64) key { return key{0, uint64(n) ^ 1<<63} }

// addressKey returns an address as a key, with IPv4 addresses mapped into IPv6.
func addressKey(a netip.Addr) key {
	b := a.As16()
	return key{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

// compare orders keys as numbers of 128 bits.
func (k key) compare(other key) int {
	if c := cmp.Compare(k.high, other.high); c != 0 {
		return c
	}
	return cmp.Compare(k.low, other.low)
}

// next returns the key that follows k, and {0, 0} for the last one.
func (k key) next() key {
	k.low++
	if k.low == 0 {
		k.high++
	}
	return k
}
