package redis

import (
	"fmt"
	"time"

	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// A timeout is evidence against Redis only if Redis had the time to answer and this
// process had the time to notice: nothing was read, and the round trip was under way for
// as long as a fair call waits. The time by which timers were late meanwhile (package lag)
// does not count. Every other timeout is this process's own fault, because the call waited
// for a batch or for a CPU; its error wraps redisconn.ErrStarved. A connection error is
// evidence at once.

// departure is when a batch left.
type departure struct {
	at   time.Time
	late time.Duration // the lateness of timers so far
}

// mixedSilence is how long a round trip must be silent if another one was
// answered meanwhile: then Redis is there, and at most a connection hangs.
const mixedSilence = 50 * time.Millisecond

// evidenceShare is the part of fairTime, or of a smaller budget, in fifths, that
// a round trip must have been silent: timers are never exact.
const evidenceShare = 4

// depart records that a batch leaves now. It requires b.mu.
func (b *Batcher) depart() {
	b.left = departure{b.now(), b.lateness()}
	b.trips++
}

// lateness returns by how much timers were late so far.
func (b *Batcher) lateness() time.Duration {
	if b.late == nil {
		return 0
	}
	return b.late()
}

// arrived records a reply to a batch. It requires b.mu.
func (b *Batcher) arrived(left departure) {
	b.heard = b.now()
	took := b.heard.Sub(left.at)
	if b.pace == 0 {
		b.pace = took
	}
	b.pace += (took - b.pace) / 8
}

// silent reports whether a batch that is not answered yet is evidence against
// Redis.
// It requires b.mu.
func (b *Batcher) silent(left departure) bool {
	waited := b.now().Sub(left.at) - (b.lateness() - left.late)
	if !b.heard.Before(left.at) {
		return waited >= mixedSilence
	}
	return waited >= min(fairTime, b.budget)*evidenceShare/5
}

// explain returns the error of an ended call; a timeout that is no evidence
// against Redis wraps redisconn.ErrStarved.
func (b *Batcher) explain(c *Call) error {
	if c.err == nil || !redisconn.TimedOut(c.err) {
		return c.err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.silent(c.left) {
		return c.err
	}
	return fmt.Errorf("%w: %w", redisconn.ErrStarved, c.err)
}

// withdraw takes back a call that ended with err before it was answered, and
// returns its error. If it was not sent, it waited in vain for the batch that
// left last.
func (b *Batcher) withdraw(c *Call, err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var silent bool
	if c.state.CompareAndSwap(callWaits, callWithdrawn) {
		c.Trip = b.trips
		err = fmt.Errorf("%w in time: %w", redisconn.ErrUnsent, err)
		silent = !b.gathers && b.silent(b.left)
	} else {
		silent = b.silent(c.left)
	}
	if silent || !redisconn.TimedOut(err) {
		return err
	}
	return fmt.Errorf("%w: %w", redisconn.ErrStarved, err)
}

// errHopeless is the error of a call that was not queued.
var errHopeless = fmt.Errorf("%w: %w: the calls that wait already take longer than its time", redisconn.ErrStarved, redisconn.ErrUnsent)

// hopeless reports whether c cannot be answered in time, by the number of calls
// that wait and the time that batches currently take. Such a call only delays
// others. It requires b.mu.
func (b *Batcher) hopeless(c *Call) bool {
	if c.until.IsZero() {
		return false
	}
	batches := int64(len(b.waiting)/maxBatch + 1)
	return b.now().Add(time.Duration(batches * int64(b.pace))).After(c.until)
}
