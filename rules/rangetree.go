package rules

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"
)

// rangeTree finds the rules whose ranges contain a value, in logarithmic time even if
// there are many and they overlap. It is a segment tree: the ends of all ranges cut the
// keys into pieces, which are the leaves; a range is stored at the few nodes that
// together cover its pieces, and a value is in the ranges of the nodes above its piece.
type rangeTree struct {
	starts []key    // the start of each piece; no range contains keys before the first
	nodes  []uint32 // the start of each node's rules in rules; the children of n are 2n and 2n+1
	rules  []int32
}

// piece returns the number of the piece that contains k, -1 before the first.
func (t *rangeTree) piece(k key) int {
	low, high := 0, len(t.starts)
	for low < high {
		middle := int(uint(low+high) / 2)
		if at := &t.starts[middle]; at.high < k.high || at.high == k.high && at.low <= k.low {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low - 1
}

// appendLists appends the lists of rules whose ranges contain k.
func (t *rangeTree) appendLists(lists [][]int32, k key) [][]int32 {
	piece := t.piece(k)
	if piece < 0 {
		return lists
	}
	for n := piece + len(t.starts); n > 0; n /= 2 {
		if from, to := t.nodes[n], t.nodes[n+1]; from < to {
			lists = append(lists, t.rules[from:to])
		}
	}
	return lists
}

// ruleRange is a range that a rule requires.
type ruleRange struct {
	interval[key]
	rule int32
}

// newRangeTree returns the tree of ranges, which must be in the order of their rules. It is
// incomplete if the work must stop.
func newRangeTree(list []ruleRange, p *pauses) rangeTree {
	if len(list) == 0 {
		return rangeTree{}
	}
	t := rangeTree{starts: make([]key, 0, 2*len(list))}
	for _, r := range list {
		t.starts = append(t.starts, r.low)
		if after := r.high.next(); after != (key{}) {
			t.starts = append(t.starts, after)
		}
	}
	sortPausing(t.starts, key.compare, p)
	t.starts = slices.Clip(slices.Compact(t.starts))

	// The first pass counts the rules of each node, the second stores them.
	t.nodes = make([]uint32, 2*len(t.starts)+1)
	for i, r := range list {
		t.cover(r.interval, func(node int) { t.nodes[node+1]++ })
		if !p.at(i) {
			return t
		}
	}
	for n := 1; n < len(t.nodes); n++ {
		t.nodes[n] += t.nodes[n-1]
	}
	t.rules = make([]int32, t.nodes[len(t.nodes)-1])
	filled := slices.Clone(t.nodes)
	for i, r := range list {
		t.cover(r.interval, func(node int) {
			t.rules[filled[node]] = r.rule
			filled[node]++
		})
		if !p.at(i) {
			return t
		}
	}
	return t
}

// cover calls visit for the nodes that together cover the pieces of a range.
func (t *rangeTree) cover(r interval[key], visit func(node int)) {
	low, high := t.piece(r.low)+len(t.starts), t.piece(r.high)+len(t.starts)+1
	for ; low < high; low, high = low/2, high/2 {
		if low%2 == 1 {
			visit(low)
			low++
		}
		if high%2 == 1 {
			high--
			visit(high)
		}
	}
}

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
