package exceptions

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// byEnd compares exceptions by their ends, and by their IDs if they end together.
func byEnd(a, b *Exception) int {
	return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.ID, b.ID))
}

// inOrder returns the exceptions of a map, the one that ends next first.
func inOrder(by map[string]*Exception, pause func()) []*Exception {
	return slices.SortedFunc(maps.Values(by), func(a, b *Exception) int {
		pause()
		return byEnd(a, b)
	})
}

// merged returns a new list with the exceptions of two ordered lists, of which b is short.
func merged(a, b []*Exception) []*Exception {
	all := make([]*Exception, 0, len(a)+len(b))
	for _, x := range b {
		n, _ := slices.BinarySearchFunc(a, x, byEnd)
		all, a = append(append(all, a[:n]...), x), a[n:]
	}
	return append(all, a...)
}

// after returns the exceptions of an ordered list that end after an instant.
func after(list []*Exception, now time.Time) []*Exception {
	n, _ := slices.BinarySearchFunc(list, now, func(x *Exception, at time.Time) int {
		if x.Until.After(at) {
			return 1
		}
		return -1
	})
	return list[n:]
}
