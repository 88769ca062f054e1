package envoy

import (
	"encoding/binary"
	"errors"
	"os"
	"time"
)

// Bound is the name of a bound that ended or refused a connection or a call.
type Bound string

// The bounds of the front.
const (
	// These end a connection.

	// BoundUnfinished is Options.MaxUnfinished.
	BoundUnfinished Bound = "unfinished"
	// BoundUnfinishedTotal is Options.MaxUnfinishedTotal.
	BoundUnfinishedTotal Bound = "unfinished_total"
	// BoundResets is Options.MaxResets.
	BoundResets Bound = "resets"
	// BoundSettings is Options.MaxSettings.
	BoundSettings Bound = "settings"
	// BoundHandshake is Options.HandshakeTimeout.
	BoundHandshake Bound = "handshake"
	// BoundPings is Options.KeepaliveMinTime.
	BoundPings Bound = "pings"

	// These end or refuse a call.

	// BoundCallTimeout is Options.CallTimeout.
	BoundCallTimeout Bound = "call_timeout"
	// BoundMessageSize is Options.MaxMessageBytes.
	BoundMessageSize Bound = "message_size"
	// BoundStreams is Options.MaxStreams, exceeded by callers that do not delay calls.
	BoundStreams Bound = "streams"
	// BoundHeaderSize is Options.MaxHeaderBytes.
	BoundHeaderSize Bound = "header_size"
)

// Bounds returns all bounds of the front.
func Bounds() []Bound {
	return []Bound{
		BoundUnfinished, BoundUnfinishedTotal, BoundResets, BoundSettings, BoundHandshake, BoundPings,
		BoundCallTimeout, BoundMessageSize, BoundStreams, BoundHeaderSize,
	}
}

// resetBurst and settingsBurst are the numbers of seconds whose resets and SETTINGS
// frames may arrive at once. Clients send one SETTINGS frame at the start and one per
// change of their window, a few per connection; gRPC visits every open stream for one.
const (
	resetBurst    = 2
	settingsBurst = 10
)

// The error codes of HTTP/2 by which gRPC refuses calls and connections that exceed a
// bound (RFC 9113, section 7).
const (
	codeFrameSize     = 0x6
	codeRefusedStream = 0x7
	codeCalm          = 0xb
)

// refusal returns the bound whose refusal a sent frame is, or "". payload begins with
// the frame's own. If a write splits the frame, the refusal is not noticed.
func refusal(f frame, payload []byte) Bound {
	var code []byte
	switch {
	case f.kind == frameReset && len(payload) >= 4:
		code = payload[:4]
	case f.kind == frameGoAway && len(payload) >= 8:
		code = payload[4:8]
	default:
		return ""
	}
	switch n := binary.BigEndian.Uint32(code); {
	case f.kind == frameReset && n == codeRefusedStream:
		return BoundStreams
	case f.kind == frameReset && n == codeFrameSize:
		return BoundHeaderSize
	case f.kind == frameGoAway && n == codeCalm:
		return BoundPings
	}
	return ""
}

// isTimeout reports whether a read failed because of a deadline.
func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

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
