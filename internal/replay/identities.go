package replay

import (
	"cmp"
	"container/heap"
	"crypto/sha256"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/koalagate/koalagate/rules"
)

const (
	// trackedIdentities bounds the memory that topIdentities needs.
	trackedIdentities = 10_000
	// reportedIdentities is the length of the list in a report.
	reportedIdentities = 10
	// maxKey is the length of an identity, and of a value in a report, in bytes.
	maxKey = 256
)

// topIdentities finds the identities with the most hits of a trace of any length
// in bounded memory, by the "space saving" algorithm (Metwally, Agrawal, El
// Abbadi 2005). Totals are exact up to the capacity. Beyond it, a new identity
// replaces the one with the fewest hits and inherits its count: a total may then
// be too high, but no frequent identity is missed.
type topIdentities struct {
	capacity int
	heap     identityHeap // fewest hits first
	byKey    map[string]*identity
	key      []byte // scratch memory of add
}

// identity is a tracked identity of a rule.
type identity struct {
	IdentityTotals
	key   string
	index int // in the heap
}

func newTopIdentities(capacity int) *topIdentities {
	return &topIdentities{capacity: capacity, byKey: make(map[string]*identity, capacity)}
}

// add counts hits of the identity that a rule matched.
func (t *topIdentities) add(m *rules.Match, hits int64, refused bool) {
	t.key = append(strconv.AppendInt(t.key[:0], m.Rule.Return, 10), ' ')
	if len(m.Identity) > maxKey {
		sum := sha256.Sum256(m.Identity)
		t.key = append(t.key, sum[:]...)
	} else {
		t.key = append(t.key, m.Identity...)
	}
	x := t.byKey[string(t.key)]
	if x == nil {
		x = t.admit(string(t.key))
		x.Rule, x.Name, x.Identity = m.Rule.Return, m.Rule.Name, shortened(m.Values())
	}
	x.Hits = saturated(x.Hits, hits)
	if refused {
		x.Refused++
	}
	heap.Fix(&t.heap, x.index)
}

// shortened returns values of which the longer ones are cut: a line of a trace may have a
// megabyte.
func shortened(values []rules.Param) []rules.Param {
	for i := range values {
		if v := &values[i]; len(v.Value) > maxKey {
			v.Value = strings.Clone(strings.ToValidUTF8(v.Value[:maxKey], "")) + "…"
		} else {
			v.Value = strings.Clone(v.Value) // which is a part of its line
		}
	}
	return values
}

// saturated returns the sum of two numbers that are not negative, at most the largest.
func saturated(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// admit starts to track an identity, if necessary instead of the one with the
// fewest hits.
func (t *topIdentities) admit(key string) *identity {
	if len(t.heap) < t.capacity {
		x := &identity{key: key}
		heap.Push(&t.heap, x)
		t.byKey[key] = x
		return x
	}
	x := t.heap[0]
	delete(t.byKey, x.key)
	x.key, x.Excess, x.Refused = key, x.Hits, 0
	t.byKey[key] = x
	return x
}

// top returns up to n identities with the most hits, most hits first.
func (t *topIdentities) top(n int) []IdentityTotals {
	sorted := slices.SortedFunc(slices.Values(t.heap), func(a, b *identity) int {
		return cmp.Or(cmp.Compare(b.Hits, a.Hits), cmp.Compare(a.key, b.key))
	})
	list := make([]IdentityTotals, min(n, len(sorted)))
	for i := range list {
		list[i] = sorted[i].IdentityTotals
	}
	return list
}

// identityHeap implements heap.Interface.
type identityHeap []*identity

func (h identityHeap) Len() int           { return len(h) }
func (h identityHeap) Less(i, j int) bool { return h[i].Hits < h[j].Hits }
func (h identityHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *identityHeap) Push(x any) {
	added := x.(*identity)
	added.index = len(*h)
	*h = append(*h, added)
}

// Pop implements heap.Interface; topIdentities never calls it.
func (h *identityHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
