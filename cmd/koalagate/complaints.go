package main

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// complaints are log lines about what may happen with every call: one every so
// often.
type complaints struct {
	logger *slog.Logger
	last   atomic.Int64 // when the last was logged, ns since begun; 0 for never
	silent atomic.Int64 // those since then
}

// begun is where times begin that no step of the machine's clock concerns.
var begun = time.Now()

// complainEvery is how often a complaint is logged.
const complainEvery = 10 * time.Second

// tell logs a complaint, unless the last one was a moment ago.
func (c *complaints) tell(message string, args ...any) {
	now, last := int64(time.Since(begun))+1, c.last.Load()
	if last != 0 && now-last < int64(complainEvery) || !c.last.CompareAndSwap(last, now) {
		c.silent.Add(1)
		return
	}
	c.logger.Warn(message, append(args, "since_last_line", c.silent.Swap(0))...)
}
