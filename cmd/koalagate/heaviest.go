package main

import (
	"cmp"
	"container/heap"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/koalagate/koalagate/rules"
)

// heaviest finds the identities with the most hits of a trace of any length in
// bounded memory: "space saving" (Metwally, Agrawal, El Abbadi 2005). While
// there are no more identities than room all numbers are exact; beyond, a new
// identity takes the place of the lightest and what that had counted, which may
// be too much for it and never hides a heavy one.
type heaviest struct {
	room  int
	heap  weights // the lightest first
	known map[string]*weight
	key   []byte // of the identity that is counted
}

// weight is an identity of a rule.
type weight struct {
	key     string
	words   string
	rule    int64
	hits    int64
	excess  int64 // how many of the hits may be another's
	refused int   // calls
	at      int   // in the heap
}

func newHeaviest(room int) *heaviest {
	return &heaviest{room: room, known: make(map[string]*weight, room)}
}

// add counts the hits that an identity asked for.
func (h *heaviest) add(m *rules.Match, hits int64, refused bool) {
	h.key = append(append(strconv.AppendInt(h.key[:0], m.Rule.Return, 10), ' '), m.Identity...)
	w := h.known[string(h.key)]
	if w == nil {
		w = h.admit(string(h.key))
		w.rule, w.words = m.Rule.Return, identityText(identity(m))
	}
	w.hits += hits
	if refused {
		w.refused++
	}
	heap.Fix(&h.heap, w.at)
}

// admit makes room for an identity.
func (h *heaviest) admit(key string) *weight {
	if len(h.heap) < h.room {
		w := &weight{key: key}
		heap.Push(&h.heap, w)
		h.known[key] = w
		return w
	}
	w := h.heap[0]
	delete(h.known, w.key)
	w.key, w.excess, w.refused = key, w.hits, 0
	h.known[key] = w
	return w
}

// write writes the first of them.
func (h *heaviest) write(w io.Writer) {
	list := slices.SortedFunc(slices.Values(h.heap), func(a, b *weight) int {
		return cmp.Or(cmp.Compare(b.hits, a.hits), cmp.Compare(a.key, b.key))
	})
	if len(list) == 0 {
		return
	}
	fmt.Fprintln(w, "\nheaviest identities")
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "rule\thits\trefused calls\tidentity")
	for _, x := range list[:min(len(list), heaviestShown)] {
		hits := strconv.FormatInt(x.hits, 10)
		if x.excess > 0 {
			hits = fmt.Sprintf("%d … %d", x.hits-x.excess, x.hits)
		}
		fmt.Fprintf(t, "%d\t%s\t%d\t%s\n", x.rule, hits, x.refused, x.words)
	}
	t.Flush()
}

// weights are a heap.
type weights []*weight

func (w weights) Len() int           { return len(w) }
func (w weights) Less(i, j int) bool { return w[i].hits < w[j].hits }
func (w weights) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].at, w[j].at = i, j
}

// Push is for container/heap.
func (w *weights) Push(x any) {
	added := x.(*weight)
	added.at = len(*w)
	*w = append(*w, added)
}

// Pop is for container/heap; nothing ever leaves.
func (w *weights) Pop() any {
	last := (*w)[len(*w)-1]
	*w = (*w)[:len(*w)-1]
	return last
}
