package topk

import (
	"math"
	"math/rand"
	"testing"
)

// Counts are never too low, too high by their excess at most, and no heavy key is missing.
func TestBoundsOfCounts(t *testing.T) {
	const counters, rounds = 100, 200_000
	tests := []struct {
		name string
		keys func(*rand.Rand) func() uint64
	}{
		{"Zipf", func(r *rand.Rand) func() uint64 { return rand.NewZipf(r, 1.1, 1, 1_000_000).Uint64 }},
		{"uniform", func(r *rand.Rand) func() uint64 { return func() uint64 { return uint64(r.Intn(10_000)) } }},
		{"few keys", func(r *rand.Rand) func() uint64 { return func() uint64 { return uint64(r.Intn(counters)) } }},
		{"each once", func(*rand.Rand) func() uint64 { n := uint64(0); return func() uint64 { n++; return n } }},
		{"a new key after each of a heavy one", func(*rand.Rand) func() uint64 {
			n := uint64(1)
			return func() uint64 { n++; return n * (n & 1) }
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			random := rand.New(rand.NewSource(1))
			next, top, exact := test.keys(random), New[uint64, struct{}](counters), make(map[uint64]int64)
			var sum int64
			for range rounds {
				key, n := next(), int64(random.Intn(4))
				exact[key] += n
				sum += n
				c, _ := top.Take(key)
				top.Raise(c, n)
			}
			compare(t, top, exact, sum/counters)
		})
	}
}

// compare compares counters with exact counts.
func compare(t *testing.T, top *Top[uint64, struct{}], exact map[uint64]int64, mostExcess int64) {
	t.Helper()
	list := top.Sorted()
	if want := min(len(exact), top.counters); len(list) != want {
		t.Errorf("%d counters; want %d", len(list), want)
	}
	for i, c := range list {
		if n := exact[c.Key]; c.Count < n || c.Count-c.Excess > n {
			t.Errorf("key %d has %d … %d; want %d", c.Key, c.Count-c.Excess, c.Count, n)
		}
		if c.Excess > mostExcess || len(exact) <= top.counters && c.Excess != 0 {
			t.Errorf("key %d has an excess of %d of %d", c.Key, c.Excess, mostExcess)
		}
		if i > 0 && (list[i-1].Count < c.Count || list[i-1].Count == c.Count && list[i-1].Key >= c.Key) {
			t.Errorf("key %d follows key %d", c.Key, list[i-1].Key)
		}
	}
	for key, n := range exact {
		if top.Get(key) == nil && n > top.Unlisted() {
			t.Errorf("key %d with %d has no counter; want at most %d", key, n, top.Unlisted())
		}
	}
}

// A key that takes a counter continues its count and finds its value.
func TestNewKeyContinuesSmallestCounter(t *testing.T) {
	top := New[string, string](2)
	for _, one := range []struct {
		key string
		n   int64
	}{{"ann", 5}, {"bob", 3}} {
		c, isNew := top.Take(one.key)
		if !isNew || c.Excess != 0 {
			t.Errorf("%s: %+v, %v", one.key, c, isNew)
		}
		c.Value = one.key
		top.Raise(c, one.n)
	}
	if _, isNew := top.Take("ann"); isNew {
		t.Error("ann is new")
	}
	c, isNew := top.Take("cy")
	if !isNew || c.Key != "cy" || c.Count != 3 || c.Excess != 3 || c.Value != "bob" {
		t.Errorf("%+v, %v", c, isNew)
	}
	if top.Get("bob") != nil || top.Get("cy") != c {
		t.Error("bob still has the counter")
	}
}

func TestSumsAreBounded(t *testing.T) {
	var top Top[string, struct{}] // one counter
	if top.Unlisted() != 0 || len(top.Sorted()) != 0 {
		t.Error("the zero value is not empty")
	}
	c, _ := top.Take("ann")
	top.Raise(c, math.MaxInt64)
	top.Raise(c, 7)
	top.Raise(c, -1)
	if c.Count != math.MaxInt64 {
		t.Errorf("the count is %d", c.Count)
	}
	if c, isNew := top.Take("bob"); !isNew || c.Excess != math.MaxInt64 || len(top.Sorted()) != 1 {
		t.Errorf("%+v, %v", c, isNew)
	}
}

// A new key takes one of a thousand counters.
func BenchmarkNewKey(b *testing.B) {
	top, key := New[uint64, struct{}](1000), uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		key++
		c, _ := top.Take(key)
		top.Raise(c, 1)
	}
}
