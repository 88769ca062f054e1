package main

import (
	"math"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// cpuTime returns the CPU time used by this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it fails only for invalid arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Many short rounds, so that some of them are not disturbed by other load.
const (
	rounds = 101
	calls  = 5_000
)

// race calls two functions alternately. It returns the CPU time per call of each in
// nanoseconds, in its best round, and the median over all rounds of the ratio of the
// second to the first: other load affects both functions of a round.
func race(a, b func()) (took [2]float64, ratio float64) {
	round := func(f func()) float64 {
		start := cpuTime()
		for range calls {
			f()
		}
		return float64(cpuTime()-start) / calls
	}
	ratios := make([]float64, rounds)
	took = [2]float64{math.Inf(1), math.Inf(1)}
	for i := range ratios {
		x, y := round(a), round(b)
		took[0], took[1], ratios[i] = min(took[0], x), min(took[1], y), y/x
	}
	slices.Sort(ratios)
	return took, ratios[rounds/2]
}

// heap returns the memory in use after a garbage collection.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
