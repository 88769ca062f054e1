// Package stats summarizes the figures of several rounds.
package stats

import (
	"fmt"
	"math"
	"slices"
)

// Value is a median with minimum and maximum.
type Value struct{ Median, Least, Most float64 }

// Of returns the value of a list, all NaN without figures.
func Of(list []float64) Value {
	n := len(list)
	if n == 0 {
		return Value{math.NaN(), math.NaN(), math.NaN()}
	}
	list = slices.Sorted(slices.Values(list))
	return Value{(list[n/2] + list[(n-1)/2]) / 2, list[0], list[n-1]}
}

// Ratios returns the ratios of a to b, round by round. Rounds whose ratio is not defined
// are left out.
func Ratios(a, b []float64) Value {
	var list []float64
	for i := range min(len(a), len(b)) {
		if b[i] > 0 {
			list = append(list, a[i]/b[i])
		}
	}
	return Of(list)
}

// Measured reports whether there was a figure.
func (v Value) Measured() bool { return !math.IsNaN(v.Median) }

// String returns the median and, in parentheses, minimum and maximum.
func (v Value) String() string {
	if !v.Measured() {
		return ""
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", v.Median, v.Least, v.Most)
}
