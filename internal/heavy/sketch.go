package heavy

import (
	"container/heap"
	"hash/maphash"

	"github.com/koalagate/koalagate/rules"
)

// counters is the number of counters of a sketch: a count is too high by the number of
// calls divided by counters at most.
const counters = 2048

// sketch counts the calls of the identities with the most, by the algorithm Space-Saving
// (Metwally, Agrawal and El Abbadi, "Efficient Computation of Frequent and Top-k Elements
// in Data Streams", 2005): a new identity takes the counter with the smallest count, and
// continues it. The count of an identity is never too low, and too high by what the
// counter had when the identity took it at most.
type sketch struct {
	seed  maphash.Seed
	slots []*slot          // a heap, the smallest count first
	index map[uint64]*slot // by key
	calls int64
}

// slot is a counter.
type slot struct {
	key      uint64 // hash of rule and identity
	count    int64
	excess   int64 // count when the identity took the counter
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

// add counts a call.
func (s *sketch) add(r *rules.Rule, door string, identity []byte) {
	const golden = 0x9e3779b97f4a7c15 // spreads consecutive numbers
	key := maphash.Bytes(s.seed, identity) ^ uint64(r.Return)*golden
	s.calls++
	one := s.index[key]
	switch {
	case one != nil:
		one.count++
		one.rule = r // by the latest rules
	case len(s.slots) < counters:
		one = &slot{key: key, count: 1, rule: r, door: door, identity: append([]byte(nil), identity...)}
		s.index[key] = one
		heap.Push(s, one)
		return
	default:
		one = s.slots[0]
		delete(s.index, one.key)
		s.index[key] = one
		*one = slot{key: key, count: one.count + 1, excess: one.count, rule: r, door: door, identity: append(one.identity[:0], identity...)}
	}
	heap.Fix(s, one.place)
}

// most returns the highest count that an identity without a counter may have.
func (s *sketch) most() int64 {
	if len(s.slots) < counters {
		return 0
	}
	return s.slots[0].count
}
