package heavy

import (
	"hash/maphash"
	"math"

	"github.com/koalagate/koalagate/internal/topk"
	"github.com/koalagate/koalagate/rules"
)

// counters is the number of counters of a sketch: a count is too high by the number of
// calls divided by counters at most.
const counters = 2048

// sketch counts the calls of the identities with the most. A call of a sample counts as
// often as there are calls for each in the sample, and adds to the variance of the count.
type sketch struct {
	seed   maphash.Seed
	top    *topk.Top[uint64, seen] // by hashes of rule and identity
	calls  int64
	weight int64 // the highest of a call
}

// slot is a counter.
type slot = topk.Counter[uint64, seen]

// seen is what a sketch knows about an identity.
type seen struct {
	calls    int64 // that were counted
	variance int64 // of the count, by sampling
	rule     *rules.Rule
	door     string // at which the identity was seen first
	identity []byte
}

func newSketch(seed maphash.Seed) *sketch {
	return &sketch{seed: seed, top: topk.New[uint64, seen](counters)}
}

// add counts a call of a sample with one of 2^exponent calls, or so many if the exponent is
// exact.
func (s *sketch) add(r *rules.Rule, door string, identity []byte, exponent uint8) {
	const golden = 0x9e3779b97f4a7c15 // spreads consecutive numbers
	weight, counted := int64(1)<<(exponent&^exact), int64(1)
	if exponent&exact != 0 {
		counted = weight
	} else {
		s.weight = max(s.weight, weight)
	}
	s.calls += weight
	one, isNew := s.top.Take(maphash.Bytes(s.seed, identity) ^ uint64(r.Return)*golden)
	n := weight
	if isNew { // the count that it continues may be too low by the variance
		above := deviation(one.Value.variance)
		n += above
		one.Excess += above
		one.Value = seen{door: door, identity: append(one.Value.identity[:0], identity...)}
	}
	one.Value.rule = r // by the latest rules
	one.Value.calls += counted
	one.Value.variance += weight * (weight - counted) / counted
	s.top.Raise(one, n)
}

// least returns the lower bound of the calls of an identity.
func least(s *slot) int64 {
	return max(s.Value.calls, s.Count-s.Excess-deviation(s.Value.variance))
}

// most returns the upper bound of the calls of an identity.
func most(s *slot) int64 { return s.Count + deviation(s.Value.variance) }

// deviation returns how far a count by samples is from the calls at most, with a
// probability of 99.7 %.
func deviation(variance int64) int64 { return int64(math.Ceil(3 * math.Sqrt(float64(variance)))) }

// most returns the highest count that an identity without a counter may have.
func (s *sketch) most() int64 {
	n := s.top.Unlisted()
	if s.weight > 1 {
		// The sample may have no call of it, and fewer calls than expected of a full sketch.
		const unlikely = 6 // e^-6 is 0.2 %
		n += deviation(n*(s.weight-1)) + unlikely*s.weight
	}
	return n
}
