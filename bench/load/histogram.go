package main

import (
	"math/bits"
	"time"
)

// histogram counts durations in classes with a relative width of at most 1/64, so that
// millions of durations need little memory and no sorting.
type histogram struct {
	classes [58 << fineBits]uint32
	number  uint64
}

// fineBits is the number of bits below the highest one that determine the class of a
// duration.
const fineBits = 6

// add counts one duration.
func (h *histogram) add(d time.Duration) {
	h.classes[classOf(uint64(max(d, 0)))]++
	h.number++
}

// merge adds the counts of other.
func (h *histogram) merge(other *histogram) {
	for i, n := range other.classes {
		h.classes[i] += n
	}
	h.number += other.number
}

// quantile returns the duration that the share q of all durations does not exceed.
func (h *histogram) quantile(q float64) time.Duration {
	left := uint64(q * float64(h.number))
	for i, n := range h.classes {
		if uint64(n) > left {
			return time.Duration(valueOf(i))
		}
		left -= uint64(n)
	}
	return 0
}

func classOf(v uint64) int {
	if v < 1<<fineBits {
		return int(v)
	}
	shift := bits.Len64(v) - fineBits - 1
	return shift<<fineBits + int(v>>shift)
}

// valueOf returns the middle of a class.
func valueOf(class int) uint64 {
	if class < 2<<fineBits {
		return uint64(class)
	}
	shift := class>>fineBits - 1
	return uint64(class-shift<<fineBits)<<shift + 1<<(shift-1)
}
