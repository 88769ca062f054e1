package xds

import (
	"math"
	"math/rand/v2"
	"time"
)

// setDefaults replaces pauses that are not above 0.
func (b *Backoff) setDefaults() {
	if b.Initial <= 0 {
		b.Initial = 100 * time.Millisecond
	}
	if b.Max <= 0 {
		b.Max = 10 * time.Second
	}
}

// pause returns the pause before an attempt, of which the first is 0.
func (b *Backoff) pause(attempt int) time.Duration {
	factor := b.Factor
	if factor <= 0 {
		factor = 2 // as the library of envoyproxy/ratelimit
	}
	most := float64(b.Max)
	pause := min(float64(b.Initial)*math.Pow(factor, float64(attempt)), most)
	if b.Jitter && pause > float64(b.Initial) {
		pause = float64(b.Initial) + rand.Float64()*(pause-float64(b.Initial)) //nolint:gosec // no secret
	}
	// A factor below 1 would make the pauses ever shorter.
	return time.Duration(max(pause, min(float64(b.Initial), most)))
}
