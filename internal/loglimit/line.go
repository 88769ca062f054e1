// Package loglimit limits log lines that any call may cause: each kind of line is
// logged at most once in ten seconds, with the number of lines that were skipped.
package loglimit

import (
	"sync/atomic"
	"time"
)

// Every is the shortest time between two lines of one kind.
const Every = 10 * time.Second

// Line is one kind of line. The zero value was never logged. It is safe for
// concurrent use, and concurrent calls do not wait for each other.
type Line struct {
	last    atomic.Int64 // time of the last line, ns since start; 0 for never
	skipped atomic.Int64 // lines skipped since then
}

// start is the origin of times. It has a monotonic reading, so that steps of the
// system clock have no effect.
var start = time.Now()

// Due reports whether the line is due now, and if so the number of lines that were
// skipped since the last one.
func (l *Line) Due() (skipped int64, due bool) {
	now, last := int64(time.Since(start))+1, l.last.Load()
	if last != 0 && now-last < int64(Every) || !l.last.CompareAndSwap(last, now) {
		l.skipped.Add(1)
		return 0, false
	}
	return l.skipped.Swap(0), true
}
