// Package ration keeps logs readable where a line is about what may happen with
// every call: it is told once in ten seconds, with the number of those that were
// not.
package ration

import (
	"sync/atomic"
	"time"
)

// Every is how long a line stays untold after it was told.
const Every = 10 * time.Second

// Line is one kind of line. Its zero value was never told. It is safe for
// concurrent use, and calls at the same time do not wait for each other.
type Line struct {
	last   atomic.Int64 // when it was told, ns since begun; 0 for never
	unsaid atomic.Int64 // how often it was not since then
}

// begun is where times begin that no step of the machine's clock concerns.
var begun = time.Now()

// Due tells whether the line is to be told now, and then how often it was not
// since the last time.
func (l *Line) Due() (unsaid int64, due bool) {
	now, last := int64(time.Since(begun))+1, l.last.Load()
	if last != 0 && now-last < int64(Every) || !l.last.CompareAndSwap(last, now) {
		l.unsaid.Add(1)
		return 0, false
	}
	return l.unsaid.Swap(0), true
}
