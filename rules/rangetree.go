package rules

import "slices"

// rangeTree finds the rules whose ranges hold a value, however many there are
// and however they overlap. It is a segment tree: the ends of all ranges cut
// the line of keys into pieces, which are the leaves; a range stands at the
// few nodes that cover its pieces together, and a value is in the ranges at
// the nodes above its own piece.
type rangeTree struct {
	starts []key    // where each piece begins; what lies before the first is in no range
	nodes  []uint32 // where each node's rules begin in rules; node n has 2n and 2n+1 below it
	rules  []int32
}

// piece is the number of the piece that k lies in, -1 before the first.
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

// appendLists appends the lists of rules whose ranges hold k.
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

// ruleRange is a range in which a rule wants a value.
type ruleRange struct {
	interval[key]
	rule int32
}

// newRangeTree makes the tree of ranges that are in the order of their rules.
func newRangeTree(list []ruleRange) rangeTree {
	if len(list) == 0 {
		return rangeTree{}
	}
	t := rangeTree{starts: make([]key, 0, 2*len(list))}
	for _, r := range list {
		t.starts = append(t.starts, r.low)
		if behind := r.high.next(); behind != (key{}) {
			t.starts = append(t.starts, behind)
		}
	}
	slices.SortFunc(t.starts, key.compare)
	t.starts = slices.Clip(slices.Compact(t.starts))

	// Once to count the rules of each node, and once to put them there.
	t.nodes = make([]uint32, 2*len(t.starts)+1)
	for _, r := range list {
		t.cover(r.interval, func(node int) { t.nodes[node+1]++ })
	}
	for n := 1; n < len(t.nodes); n++ {
		t.nodes[n] += t.nodes[n-1]
	}
	t.rules = make([]int32, t.nodes[len(t.nodes)-1])
	filled := slices.Clone(t.nodes)
	for _, r := range list {
		t.cover(r.interval, func(node int) {
			t.rules[filled[node]] = r.rule
			filled[node]++
		})
	}
	return t
}

// cover calls take for the nodes that cover the pieces of a range together.
func (t *rangeTree) cover(r interval[key], take func(node int)) {
	low, high := t.piece(r.low)+len(t.starts), t.piece(r.high)+len(t.starts)+1
	for ; low < high; low, high = low/2, high/2 {
		if low%2 == 1 {
			take(low)
			low++
		}
		if high%2 == 1 {
			high--
			take(high)
		}
	}
}
