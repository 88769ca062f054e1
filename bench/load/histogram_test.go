package main

import (
	"math"
	"testing"
	"time"
)

func TestQuantilesHaveARelativeErrorOfOneSixtyFourth(t *testing.T) {
	var h histogram
	const n = 100_000
	for i := range n {
		h.add(time.Duration(i) * time.Microsecond)
	}
	for _, q := range []float64{0, 0.5, 0.9, 0.99, 0.999} {
		want := q * n * float64(time.Microsecond)
		if got := float64(h.quantile(q)); math.Abs(got-want) > want/64+1 {
			t.Errorf("quantile %v is %v; want %v", q, time.Duration(got), time.Duration(want))
		}
	}
}

func TestEveryDurationHasAClass(t *testing.T) {
	last := -1
	for _, d := range []time.Duration{-1, 0, 1, 63, 64, 127, 128, 1000, time.Second, time.Hour, math.MaxInt64} {
		class := classOf(uint64(max(d, 0)))
		if class < last {
			t.Errorf("%d has class %d, below the class of a shorter duration", d, class)
		}
		last = class
		if got := valueOf(class); d > 0 && math.Abs(float64(got)-float64(d)) > float64(d)/64 {
			t.Errorf("%d is counted as %d", d, got)
		}
		new(histogram).add(d)
	}
}
