// Package topk finds the heaviest of very many keys in bounded memory, by the algorithm
// Space-Saving (Metwally, Agrawal and El Abbadi, "Efficient Computation of Frequent and Top-k
// Elements in Data Streams", 2005).
package topk

import (
	"cmp"
	"math"
	"slices"
)

// Top counts the heaviest keys. While it has room, counts are exact. After that a new key takes
// the counter with the smallest count, and continues it: the count of a key is never too low,
// it is too high by its Excess at most, and no Excess is above the sum of all counts divided by
// the number of counters. The zero value has one counter. A Top is not safe for concurrent use.
type Top[K cmp.Ordered, V any] struct {
	counters int
	heap     []*Counter[K, V] // the smallest count first
	byKey    map[K]*Counter[K, V]
}

// Counter is the count of a key.
type Counter[K cmp.Ordered, V any] struct {
	Key   K
	Count int64 // 0 … math.MaxInt64; only Raise changes it
	// Excess is the most by which Count may be too high.
	Excess int64
	// Value belongs to the caller. A key that takes a counter finds the value of the key before.
	Value V
	place int // in the heap
}

// New returns a Top with a number of counters, at least 1.
func New[K cmp.Ordered, V any](counters int) *Top[K, V] {
	return &Top[K, V]{counters: counters}
}

// Get returns the counter of a key, or nil if the key has none.
func (t *Top[K, V]) Get(key K) *Counter[K, V] { return t.byKey[key] }

// Take returns the counter of a key. If the key had none, isNew is true: the key has taken an
// unused counter or the one with the smallest count.
func (t *Top[K, V]) Take(key K) (c *Counter[K, V], isNew bool) {
	if c = t.byKey[key]; c != nil {
		return c, false
	}
	if t.hasRoom() {
		c = &Counter[K, V]{place: len(t.heap)}
		t.heap = append(t.heap, c)
		t.up(c)
	} else {
		c = t.heap[0]
		delete(t.byKey, c.Key)
	}
	if t.byKey == nil {
		t.byKey = make(map[K]*Counter[K, V])
	}
	c.Key, c.Excess = key, c.Count
	t.byKey[key] = c
	return c, true
}

// Raise adds to the count of a counter. The sum ends at the largest number, and a negative n
// counts as 0.
func (t *Top[K, V]) Raise(c *Counter[K, V], n int64) {
	c.Count += min(max(n, 0), math.MaxInt64-c.Count)
	t.down(c)
}

// Unlisted returns the highest count that a key without a counter may have.
func (t *Top[K, V]) Unlisted() int64 {
	if t.hasRoom() {
		return 0
	}
	return t.heap[0].Count
}

// Sorted returns the counters, the highest count first and equal ones by their keys.
func (t *Top[K, V]) Sorted() []*Counter[K, V] {
	return slices.SortedFunc(slices.Values(t.heap), func(a, b *Counter[K, V]) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Key, b.Key))
	})
}

func (t *Top[K, V]) hasRoom() bool { return len(t.heap) < max(t.counters, 1) }

// up moves a counter towards the first while its count is smaller than the one above.
func (t *Top[K, V]) up(c *Counter[K, V]) {
	for c.place > 0 {
		above := t.heap[(c.place-1)/2]
		if above.Count <= c.Count {
			return
		}
		t.swap(c, above)
	}
}

// down moves a counter away from the first while its count is larger than one below.
func (t *Top[K, V]) down(c *Counter[K, V]) {
	for i := 2*c.place + 1; i < len(t.heap); i = 2*c.place + 1 {
		below := t.heap[i]
		if i+1 < len(t.heap) && t.heap[i+1].Count < below.Count {
			below = t.heap[i+1]
		}
		if c.Count <= below.Count {
			return
		}
		t.swap(c, below)
	}
}

func (t *Top[K, V]) swap(a, b *Counter[K, V]) {
	a.place, b.place = b.place, a.place
	t.heap[a.place], t.heap[b.place] = a, b
}
