package store

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxFailures is how many round trips in a row have no answer before Redis
	// is taken to be away. One alone may be a pause of its own, a lost packet,
	// or a fault of one plan, however many calls it carried.
	maxFailures = 3
	// minLost is how many round trips have no answer at the least among others
	// that do.
	minLost = 2
	// failureSpan is the time over which failures among answers are looked at:
	// when half the calls in it failed, Redis is of no use either.
	failureSpan = 100 * time.Millisecond
)

// breaker tells from the calls that Redis answers, and those that it does not,
// when to leave it alone: after maxFailures round trips without an answer
// between them, or when at least as many calls, of minLost round trips, are half
// of the calls since a failure not longer than failureSpan ago. A round trip
// counts once, but for one that hangs for so long that calls fail by it still
// after failureSpan. While all is well it costs a call one look at a flag that
// does not change.
type breaker struct {
	now  func() time.Time
	wary atomic.Bool // a failure is recent: answers are counted too

	mu       sync.Mutex
	inRow    int       // round trips that failed since the last answer
	begin    time.Time // of the span that is looked at
	lost     int       // round trips that failed in it
	failures int       // calls that did
	calls    int
	noted    [8]trip // those that failed last: more than are under way at a time
	next     int     // the place in noted that is used next
}

// trip is a round trip without an answer.
type trip struct {
	number uint64
	at     time.Time // when it was counted
}

// answered notes a call that Redis answered.
func (b *breaker) answered() {
	if !b.wary.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inRow = 0
	if b.now().Sub(b.begin) > failureSpan {
		b.wary.Store(false)
		return
	}
	b.calls++
}

// failed notes a call without an answer and the number of its round trip, 0 for
// one of its own. It tells whether Redis is to be left alone.
func (b *breaker) failed(number uint64) (opens bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if !b.wary.Load() || now.Sub(b.begin) > failureSpan {
		b.begin, b.lost, b.failures, b.calls = now, 0, 0, 0
		b.wary.Store(true)
	}
	if b.isNew(number, now) {
		b.inRow++
		b.lost++
	}
	b.failures++
	b.calls++
	return b.inRow >= maxFailures || b.lost >= minLost && b.failures >= maxFailures && 2*b.failures >= b.calls
}

// isNew tells whether a round trip is to be counted, and notes that it is.
func (b *breaker) isNew(number uint64, now time.Time) bool {
	if number == 0 {
		return true
	}
	for i := range b.noted {
		if t := &b.noted[i]; t.number == number {
			again := now.Sub(t.at) > failureSpan
			if again {
				t.at = now
			}
			return again
		}
	}
	b.noted[b.next] = trip{number, now}
	b.next = (b.next + 1) % len(b.noted)
	return true
}

// reset forgets what was noted.
func (b *breaker) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inRow, b.lost, b.failures, b.calls = 0, 0, 0, 0
	b.wary.Store(false)
}
