package main

import (
	"math"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// cpuTime is what the process has used of the processors.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it has no other cause than wrong arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// The rounds are many and short, so that some of them fall between what others
// do to the machine.
const (
	rounds = 101
	calls  = 5_000
)

// race has two functions called in turns, and returns the CPU time of a call of
// each in nanoseconds in its best round, and the ratio of the second to the first
// in the round in the middle: what slows the machine slows both of a round.
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

// heap is the memory in use after a collection.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
