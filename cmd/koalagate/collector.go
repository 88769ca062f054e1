package main

import (
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/koalagate/koalagate/internal/config"
)

// goPercent is Go's own setting: a collection once there is as much garbage as
// there is in use.
const goPercent = 100

// collectorInterval is how often the setting follows what is in use.
const collectorInterval = time.Second

// calmCollector has garbage gather up to the configured headroom, since a
// limiter has little in use and makes much garbage: Go would look through the
// little again and again. It leaves everything alone where the environment says
// how Go is to collect. Call end to have Go's own setting back.
//
// A fixed percentage would do the same for the little, but multiply the memory
// of a process that has millions of counters in use.
func (p *program) calmCollector(c *config.Config) (end func()) {
	if c.GCHeadroom == 0 || variable(p.environ, "GOGC") != "" || variable(p.environ, "GOMEMLIMIT") != "" {
		return func() {}
	}
	percent := 0
	follow := func() {
		want := collectorPercent(int64(c.GCHeadroom), inUse())
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

// collectorPercent is the setting by which as much garbage as headroom gathers,
// and never less than what is in use.
func collectorPercent(headroom, inUse int64) int {
	const least = 4 << 20 // Go takes no less than this to be in use
	return max(goPercent, int(headroom*100/max(inUse, least)))
}

// inUse is what the last collection had to look through: the heap that it left,
// the stacks and the globals.
func inUse() int64 {
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
