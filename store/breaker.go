package store

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxFailures is how many calls in a row have no answer before Redis is
	// taken to be away. One alone may be a pause of its own, or a fault of
	// one plan.
	maxFailures = 3
	// failureSpan is the time over which failures among answers are looked at:
	// when half the calls in it failed, Redis is of no use either.
	failureSpan = 100 * time.Millisecond
)

// breaker tells from the calls that Redis answers, and those that it does not,
// when to leave it alone: after maxFailures without an answer between them, or
// when at least as many are half of the calls since a failure not longer than
// failureSpan ago. While all is well it costs a call one look at a flag that
// does not change.
type breaker struct {
	now  func() time.Time
	wary atomic.Bool // a failure is recent: answers are counted too

	mu       sync.Mutex
	inRow    int       // failures since the last answer
	begin    time.Time // of the span that is looked at
	failures int       // in it
	calls    int
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

// failed notes a call without an answer, and tells whether Redis is to be left
// alone.
func (b *breaker) failed() (opens bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if !b.wary.Load() || now.Sub(b.begin) > failureSpan {
		b.begin, b.failures, b.calls = now, 0, 0
		b.wary.Store(true)
	}
	b.inRow++
	b.failures++
	b.calls++
	return b.inRow >= maxFailures || b.failures >= maxFailures && 2*b.failures >= b.calls
}

// reset forgets what was noted.
func (b *breaker) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inRow, b.failures, b.calls = 0, 0, 0
	b.wary.Store(false)
}
