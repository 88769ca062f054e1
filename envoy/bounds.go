package envoy

import "time"

// Bound is the name of a bound that ended a connection or a call.
type Bound string

// The bounds of the front. The first four end a connection, the others a call.
const (
	// BoundUnfinished is Options.MaxUnfinished.
	BoundUnfinished Bound = "unfinished"
	// BoundUnfinishedTotal is Options.MaxUnfinishedTotal.
	BoundUnfinishedTotal Bound = "unfinished_total"
	// BoundResets is Options.MaxResets.
	BoundResets Bound = "resets"
	// BoundSettings is the maximum rate of SETTINGS frames.
	BoundSettings Bound = "settings"
	// BoundCallTimeout is Options.CallTimeout.
	BoundCallTimeout Bound = "call_timeout"
	// BoundMessageSize is Options.MaxMessageBytes.
	BoundMessageSize Bound = "message_size"
)

// Bounds returns all bounds of the front.
func Bounds() []Bound {
	return []Bound{BoundUnfinished, BoundUnfinishedTotal, BoundResets, BoundSettings, BoundCallTimeout, BoundMessageSize}
}

// maxSettings is the number of SETTINGS frames per second that a connection may send,
// and settingsBurst the number at once. Clients send one at the start and one per
// change of their window, a few per connection. gRPC visits every open stream for one.
const (
	maxSettings   = 10
	settingsBurst = 100
)

// resetBurst is the number of seconds whose resets may arrive at once.
const resetBurst = 2

// streamMemory is about what gRPC keeps for an open stream: its goroutine, its buffers
// and its metadata.
const streamMemory = 4096

// frameMemory returns the memory of a frame's payload. gRPC reads DATA frames above
// 1 kB into buffers of 4 kB or 16 kB, its largest frame, and keeps each smaller one
// with a header of its own.
func frameMemory(length int) int64 {
	switch {
	case length <= 1<<10:
		return int64(length) + 64
	case length <= 4<<10:
		return 4 << 10
	default:
		return 16 << 10
	}
}

// allowance admits a number of events per second, and a burst at once.
type allowance struct {
	used float64
	at   time.Time // of the last event
}

// take admits an event, or returns false.
func (a *allowance) take(rate, burst float64) bool {
	now := time.Now()
	a.used = max(0, a.used-now.Sub(a.at).Seconds()*rate) + 1
	a.at = now
	return a.used <= burst
}
