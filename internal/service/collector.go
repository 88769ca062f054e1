package service

import (
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/koalagate/koalagate/internal/env"
)

// goPercent is the default of Go: a collection once there is as much garbage as live
// memory.
const goPercent = 100

// collectorInterval is the time between two adjustments to the live memory.
const collectorInterval = time.Second

// calmCollector lets garbage grow to headroom bytes before a collection. A limiter has
// little live memory and makes much garbage, so that Go would collect very often. It
// does nothing if headroom is 0, or if the environment configures the collector. end
// restores the default of Go.
//
// A fixed percentage would have the same effect on a small process, but multiply the
// memory of one with millions of counters.
func calmCollector(headroom int, environ []string) (end func()) {
	if headroom == 0 || env.Value(environ, "GOGC") != "" || env.Value(environ, "GOMEMLIMIT") != "" {
		return func() {}
	}
	percent := 0
	follow := func() {
		want := collectorPercent(int64(headroom), liveMemory())
		if want < percent || want > percent+percent/10 {
			debug.SetGCPercent(want) // stops the world for a moment
			percent = want
		}
	}
	follow()
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(collectorInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				follow()
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		running.Wait()
		debug.SetGCPercent(goPercent)
	}
}

// collectorPercent returns the setting that lets garbage grow to headroom bytes, and
// at least to the size of the live memory.
func collectorPercent(headroom, live int64) int {
	const least = 4 << 20 // the smallest live memory that Go calculates with
	return max(goPercent, int(headroom*100/max(live, least)))
}

// liveMemory returns the bytes that the last collection scanned: the live heap, the
// stacks and the globals.
func liveMemory() int64 {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(samples)
	var whole int64
	for i := range samples {
		if samples[i].Value.Kind() == metrics.KindUint64 {
			whole += int64(samples[i].Value.Uint64())
		}
	}
	return whole
}
