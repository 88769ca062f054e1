package rules

import (
	"math"
	"net/netip"
	"sort"
)

// want is a requirement on a value that follows from a condition. It may be weaker
// than the condition, because Match tests the conditions of the rules that it finds.
type want struct {
	kind      wantKind
	words     []string        // wantOne: the value is one of these words,
	integers  []interval[key] // or an integer in one of these ranges,
	addresses []interval[key] // or an address in one of these ranges
}

type wantKind uint8

const (
	wantNothing wantKind = iota // the value may be absent
	wantValue                   // any value
	wantListed                  // an entry of one of the condition's word lists
	wantOne                     // one of the values in the want
)

// want returns the requirement of the condition. It appends ranges to buffer.
func (c *Condition) want(buffer []interval[key]) want {
	switch {
	case c.wantsAbsence():
		return want{}
	case c.form == formDict && !c.Negated:
		return want{kind: wantListed}
	case c.form == formAbove || c.form == formBelow:
		return want{kind: wantOne, integers: c.appendBeyond(buffer)}
	case c.form == formList && !c.Negated:
		integers := appendIntegers(buffer, c.integers)
		addresses := appendAddresses(integers[len(integers):], c.addresses, c.patterns)
		return want{wantOne, c.texts, integers, addresses}
	}
	return want{kind: wantValue}
}

// appendBeyond appends the range of integers for which a comparison holds, if it is
// not empty.
func (c *Condition) appendBeyond(to []interval[key]) []interval[key] {
	low, high := int64(math.MinInt64), int64(math.MaxInt64)
	switch above := c.form == formAbove; {
	case above && c.Negated:
		high = c.bound
	case c.Negated:
		low = c.bound
	case above && c.bound == high, !above && c.bound == low:
		return to
	case above:
		low = c.bound + 1
	default:
		high = c.bound - 1
	}
	return append(to, interval[key]{integerKey(low), integerKey(high)})
}

func appendIntegers(to []interval[key], list []interval[int64]) []interval[key] {
	for _, n := range list {
		to = append(to, interval[key]{integerKey(n.low), integerKey(n.high)})
	}
	return to
}

// appendAddresses appends ranges and patterns of addresses to an empty list. A pattern
// becomes the range from the lowest to the highest address that it matches.
// Overlapping ranges are joined, so that a rule is in a list once.
func appendAddresses(keys []interval[key], list []interval[netip.Addr], patterns []pattern) []interval[key] {
	for _, a := range list {
		keys = append(keys, interval[key]{addressKey(a.low), addressKey(a.high)})
	}
	for _, p := range patterns {
		low := addressKey(netip.AddrFrom4([4]byte{byte(p.value >> 24), byte(p.value >> 16), byte(p.value >> 8), byte(p.value)}))
		keys = append(keys, interval[key]{low, key{low.high, low.low | uint64(^p.mask)}})
	}
	return merge(keys, key.compare)
}

// crowd counts the rules with the same want. The condition of a rule whose want the
// fewest rules share leads Match to the fewest rules that do not match.
type crowd struct {
	words   map[slotWord]int32 // the number of each word
	wanting []int32            // how many rules want a word, by its number
	listed  map[slotDict]int
	value   []int // by slot
	ranges  []ends
	buffer  [16]interval[key] // of the current want
}

type slotDict struct {
	slot int
	dict *Dict
}

// ends are the ends of all ranges of one slot, sorted.
type ends struct{ lows, highs []key }

func newCrowd(x *index, p *pauses) *crowd {
	c := &crowd{words: make(map[slotWord]int32, len(x.rules)), listed: make(map[slotDict]int), value: make([]int, len(x.reads)), ranges: make([]ends, len(x.reads))}
	for i := range x.rules {
		if !p.at(i) {
			return c
		}
		for _, t := range x.rules[i].tests {
			c.count(t)
		}
	}
	for i := range c.ranges {
		sortPausing(c.ranges[i].lows, key.compare, p)
		sortPausing(c.ranges[i].highs, key.compare, p)
	}
	return c
}

// want returns the want of a test. It is valid until the next call.
func (c *crowd) want(t test) want {
	return t.condition.want(c.buffer[:0])
}

func (c *crowd) count(t test) {
	switch want := c.want(t); want.kind {
	case wantValue:
		c.value[t.slot]++
	case wantListed:
		for _, d := range t.condition.dicts {
			c.listed[slotDict{t.slot, d}]++
		}
	case wantOne:
		for _, word := range want.words {
			key := slotWord{t.slot, word}
			number, known := c.words[key]
			if !known {
				number = int32(len(c.wanting))
				c.words[key], c.wanting = number, append(c.wanting, 0)
			}
			c.wanting[number]++
		}
		c.ranges[t.slot].add(want.integers)
		c.ranges[t.slot].add(want.addresses)
	}
}

// rarest returns the test whose want the fewest rules share, the zero test if no test
// wants anything. Among equals it prefers the want with the fastest look-up.
func (c *crowd) rarest(tests []test) test {
	var best test
	var least int
	var kind wantKind
	for _, t := range tests {
		want := c.want(t)
		if want.kind == wantNothing {
			continue
		}
		if n := c.sharing(t, want); best.condition == nil || n < least || n == least && want.kind > kind {
			best, least, kind = t, n, want.kind
		}
	}
	return best
}

// sharing returns the maximum number of rules to which a value that satisfies the want
// may lead.
func (c *crowd) sharing(t test, want want) int {
	switch want.kind {
	case wantValue:
		return c.value[t.slot]
	case wantListed:
		all := 0 // a value may be in every list
		for _, d := range t.condition.dicts {
			all += c.listed[slotDict{t.slot, d}]
		}
		return all
	}
	most := 0
	for _, word := range want.words {
		most = max(most, int(c.wanting[c.words[slotWord{t.slot, word}]]))
	}
	r := &c.ranges[t.slot]
	return max(most, r.most(want.integers), r.most(want.addresses))
}

func (e *ends) add(list []interval[key]) {
	for _, i := range list {
		e.lows, e.highs = append(e.lows, i.low), append(e.highs, i.high)
	}
}

// most returns the maximum number of ranges that overlap with one range of the list.
func (e *ends) most(list []interval[key]) int {
	most := 0
	for _, i := range list {
		most = max(most, e.overlapping(i))
	}
	return most
}

// overlapping returns the number of ranges that overlap with i.
func (e *ends) overlapping(i interval[key]) int {
	started := sort.Search(len(e.lows), func(n int) bool { return e.lows[n].compare(i.high) > 0 })
	ended := sort.Search(len(e.highs), func(n int) bool { return e.highs[n].compare(i.low) >= 0 })
	return started - ended
}
