// Package delay waits for a time or for the end of a context.
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
