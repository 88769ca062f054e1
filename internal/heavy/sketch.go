package heavy

import (
	"container/heap"
	"hash/maphash"
	"math"

	"github.com/koalagate/koalagate/rules"
)

// counters is the number of counters of a sketch: a count is too high by the number of
// calls divided by counters at most.
const counters = 2048

// sketch counts the calls of the identities with the most, by the algorithm Space-Saving
// (Metwally, Agrawal and El Abbadi, "Efficient Computation of Frequent and Top-k Elements
// in Data Streams", 2005): a new identity takes the counter with the smallest count, and
// continues it. The count of an identity is never too low, and too high by what the
// counter had when the identity took it at most. A call of a sample counts as often as
// there are calls for each in the sample, and adds to the variance of the count.
type sketch struct {
	seed   maphash.Seed
	slots  []*slot          // a heap, the smallest count first
	index  map[uint64]*slot // by key
	calls  int64
	weight int64 // the highest of a call
}

// slot is a counter.
type slot struct {
	key      uint64 // hash of rule and identity
	count    int64
	excess   int64 // bound of the count when the identity took the counter
	seen     int64 // calls of the identity that were counted
	variance int64 // of the count, by sampling
	place    int   // in the heap
	rule     *rules.Rule
	door     string // at which the identity was seen first
	identity []byte
}

func newSketch(seed maphash.Seed) *sketch {
	return &sketch{seed: seed, index: make(map[uint64]*slot)}
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (s *sketch) Len() int           { return len(s.slots) }
func (s *sketch) Less(i, j int) bool { return s.slots[i].count < s.slots[j].count }
func (s *sketch) Swap(i, j int) {
	s.slots[i], s.slots[j] = s.slots[j], s.slots[i]
	s.slots[i].place, s.slots[j].place = i, j
}

// Push appends a counter.
func (s *sketch) Push(x any) {
	one := x.(*slot)
	one.place = len(s.slots)
	s.slots = append(s.slots, one)
}

// Pop is not used: counters are replaced in their places.
func (s *sketch) Pop() any { return nil }

// add counts a call of a sample with one of 2^exponent calls.
func (s *sketch) add(r *rules.Rule, door string, identity []byte, exponent uint8) {
	const golden = 0x9e3779b97f4a7c15 // spreads consecutive numbers
	key := maphash.Bytes(s.seed, identity) ^ uint64(r.Return)*golden
	weight := int64(1) << exponent
	s.calls += weight
	s.weight = max(s.weight, weight)
	one := s.index[key]
	switch {
	case one != nil:
		one.rule = r // by the latest rules
	case len(s.slots) < counters:
		one = &slot{key: key, rule: r, door: door, identity: append([]byte(nil), identity...)}
		s.index[key] = one
		heap.Push(s, one)
	default:
		one = s.slots[0]
		delete(s.index, one.key)
		s.index[key] = one
		bound := one.most()
		*one = slot{key: key, count: bound, excess: bound, rule: r, door: door, identity: append(one.identity[:0], identity...)}
	}
	one.count += weight
	one.seen++
	one.variance += weight * (weight - 1)
	heap.Fix(s, one.place)
}

// least returns the lower bound of the calls of the identity.
func (s *slot) least() int64 { return max(s.seen, s.count-s.excess-deviation(s.variance)) }

// most returns the upper bound of the calls of the identity.
func (s *slot) most() int64 { return s.count + deviation(s.variance) }

// deviation returns how far a count by samples is from the calls at most, with a
// probability of 99.7 %.
func deviation(variance int64) int64 { return int64(math.Ceil(3 * math.Sqrt(float64(variance)))) }

// most returns the highest count that an identity without a counter may have.
func (s *sketch) most() int64 {
	var n int64
	if len(s.slots) == counters {
		n = s.slots[0].count
	}
	if s.weight > 1 {
		// The sample may have no call of it, and fewer calls than expected of a full sketch.
		const unlikely = 6 // e^-6 is 0.2 %
		n += deviation(n*(s.weight-1)) + unlikely*s.weight
	}
	return n
}
