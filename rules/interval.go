package rules

import (
	"slices"
	"sort"
)

// interval is a range that includes both ends.
type interval[T any] struct{ low, high T }

// merge sorts intervals and joins overlapping ones, as contains requires.
func merge[T any](list []interval[T], compare func(a, b T) int) []interval[T] {
	if len(list) < 2 {
		return list
	}
	slices.SortFunc(list, func(a, b interval[T]) int { return compare(a.low, b.low) })
	merged := list[:0]
	for _, i := range list {
		if last := len(merged) - 1; last >= 0 && compare(i.low, merged[last].high) <= 0 {
			if compare(i.high, merged[last].high) > 0 {
				merged[last].high = i.high
			}
			continue
		}
		merged = append(merged, i)
	}
	return slices.Clip(merged)
}

// contains reports whether v is in one of the merged intervals.
func contains[T any](list []interval[T], v T, compare func(a, b T) int) bool {
	return encloses(list, interval[T]{v, v}, compare)
}

// encloses reports whether one of the merged intervals contains all of inner.
func encloses[T any](list []interval[T], inner interval[T], compare func(a, b T) int) bool {
	i := sort.Search(len(list), func(i int) bool { return compare(list[i].high, inner.high) >= 0 })
	return i < len(list) && compare(list[i].low, inner.low) <= 0
}
