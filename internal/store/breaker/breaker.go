// Package breaker decides from the answers and failures of calls when to stop
// calling a server.
//
// It counts round trips, not calls: one round trip may carry many calls, and a
// single one without an answer may be a pause of this process, a lost packet or
// a fault of one plan. Package rescue has a Breaker for Redis as a whole,
// package cluster one per node.
package breaker

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// MaxFailures is the number of consecutive round trips without an answer
	// after which the server counts as unreachable.
	MaxFailures = 3
	// minTrips is the least number of failed round trips, among answered ones,
	// after which the server may count as unreachable.
	minTrips = 2
	// span is the time over which failures are compared with answers: a server
	// that fails half of the calls in it is of no use either.
	span = 100 * time.Millisecond
)

// Breaker opens in two cases: after MaxFailures round trips in a row without an answer,
// and when half of the calls within span failed, which must be at least MaxFailures calls
// in at least minTrips round trips. A round trip counts once, and again if
// calls still fail because of it more than span after it was counted.
//
// While no call fails, a call costs one load of a flag that does not change.
// The zero value is ready to use. It is safe for concurrent use.
type Breaker struct {
	now  func() time.Time // nil for time.Now
	wary atomic.Bool      // a failure is recent: answers are counted too

	mu       sync.Mutex
	inRow    int       // failed round trips since the last answer
	begin    time.Time // of the current span
	trips    int       // failed round trips in it
	failures int       // failed calls in it
	calls    int       // all calls in it
	recent   [8]trip   // the last failed round trips: more than are under way at a time
	next     int       // index in recent that is overwritten next
}

// trip is a round trip without an answer.
type trip struct {
	number uint64
	at     time.Time // when it was counted
}

// Answered records an answered call.
func (b *Breaker) Answered() {
	if !b.wary.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inRow = 0
	if b.time().Sub(b.begin) > span {
		b.wary.Store(false)
		return
	}
	b.calls++
}

// Failed records a call without an answer. number identifies its round trip, 0
// for a trip of its own. Failed reports whether the breaker is open: whether
// calls to the server should stop.
func (b *Breaker) Failed(number uint64) (open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.time()
	if !b.wary.Load() || now.Sub(b.begin) > span {
		b.begin, b.trips, b.failures, b.calls = now, 0, 0, 0
		b.wary.Store(true)
	}
	if b.isNew(number, now) {
		b.inRow++
		b.trips++
	}
	b.failures++
	b.calls++
	return b.inRow >= MaxFailures || b.trips >= minTrips && b.failures >= MaxFailures && 2*b.failures >= b.calls
}

// isNew reports whether a round trip must be counted, and records it.
func (b *Breaker) isNew(number uint64, now time.Time) bool {
	if number == 0 {
		return true
	}
	for i := range b.recent {
		if t := &b.recent[i]; t.number == number {
			again := now.Sub(t.at) > span
			if again {
				t.at = now
			}
			return again
		}
	}
	b.recent[b.next] = trip{number, now}
	b.next = (b.next + 1) % len(b.recent)
	return true
}

// Reset forgets all failures.
func (b *Breaker) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inRow, b.trips, b.failures, b.calls = 0, 0, 0, 0
	b.wary.Store(false)
}

func (b *Breaker) time() time.Time {
	if b.now == nil {
		return time.Now()
	}
	return b.now()
}
