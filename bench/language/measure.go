package main

import (
	"runtime"
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

// rounds is how often what is short is measured; the least time counts.
const rounds = 7

// least is the CPU time of one call of f in nanoseconds, in the best of
// several rounds of n calls.
func least(n int, f func(i int)) float64 {
	var best time.Duration
	for round := range rounds {
		start := cpuTime()
		for i := range n {
			f(i)
		}
		if took := cpuTime() - start; round == 0 || took < best {
			best = took
		}
	}
	return float64(best) / float64(n)
}

// heap is the memory in use after a collection.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
