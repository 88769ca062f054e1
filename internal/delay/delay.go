// Package delay waits for a time or for the end of a context, and repeats work until then.
package delay

import (
	"context"
	"time"
)

// Wait waits for d, and returns false if ctx has ended first.
func Wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Every calls f at once, and again after each interval, until ctx is done. The interval
// begins when f returns, so that work that is slow, or fails slowly, is not repeated without
// a pause. A value from wake, which may be nil, ends the interval.
func Every(ctx context.Context, interval time.Duration, wake <-chan struct{}, f func()) {
	for ctx.Err() == nil {
		f()
		select {
		case <-ctx.Done():
		case <-time.After(interval):
		case <-wake:
		}
	}
}
