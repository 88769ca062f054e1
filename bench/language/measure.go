package main

import (
	"math"
	"runtime"
	"syscall"
	"time"

	"github.com/koalagate/koalagate/bench/stats"
)

// cpuTime returns the CPU time used by this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it fails only for invalid arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// pairs is the number of neighboring turns in a round: many short ones, so that some are not
// disturbed by other load.
const pairs = 11

// race calls two functions alternately. It returns the CPU time per call of each in
// nanoseconds, in its best turn, and the ratio of the second to the first in each round, which
// is the median of its pairs: other load affects both functions of a pair.
func (e *effort) race(a, b func()) (took [2]float64, ratio stats.Value) {
	turn := func(f func()) float64 {
		start := cpuTime()
		for range e.calls {
			f()
		}
		return float64(cpuTime()-start) / float64(e.calls)
	}
	took = [2]float64{math.Inf(1), math.Inf(1)}
	rounds := make([]float64, e.rounds)
	for i := range rounds {
		ratios := make([]float64, pairs)
		for j := range ratios {
			x, y := turn(a), turn(b)
			took[0], took[1], ratios[j] = min(took[0], x), min(took[1], y), y/x
		}
		rounds[i] = stats.Of(ratios).Median
	}
	return took, stats.Of(rounds)
}

// once returns the value of a figure that is measured once.
func once(figure float64) *stats.Value {
	return &stats.Value{Median: figure, Least: figure, Most: figure}
}

// heap returns the memory in use after a garbage collection.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
