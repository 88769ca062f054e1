package redis

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// sender is the memory of a goroutine that sends batches.
type sender struct {
	batch   []*Call
	bundles []*bundle
}

// sendUntilClosed sends batches. It outlives each of them, because a new goroutine would
// have to grow its stack for the client, and its bundles for the calls.
func (b *Batcher) sendUntilClosed() {
	defer b.running.Done()
	var s sender
	for {
		b.sendAll(&s)
		select {
		case <-b.start:
		case <-b.ctx.Done():
			if b.retire() {
				return
			}
			<-b.start
		}
	}
}

// retire ends an idle sender, and reports whether there is one: otherwise start has an
// element.
func (b *Batcher) retire() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.idle == 0 {
		return false
	}
	b.idle--
	return true
}

// sendAll sends batches until no call waits.
func (b *Batcher) sendAll(s *sender) {
	var left departure
	for {
		if s.batch, left = b.next(s.batch[:0]); len(s.batch) == 0 {
			return
		}
		s.bundles = b.bundle(s.bundles[:0], s.batch)
		ctx, cancel := context.WithDeadline(b.ctx, b.deadline(s.batch))
		b.carrier.exchange(ctx, s.bundles)
		cancel()
		clear(s.batch)
		if slices.ContainsFunc(s.bundles, func(one *bundle) bool { return one.replied }) {
			b.mu.Lock()
			b.arrived(left)
			b.mu.Unlock()
		}
		for _, one := range s.bundles {
			one.empty()
		}
	}
}

// deadline returns when a batch that leaves now must end: when its last caller's
// time ends, but within the budget. It has batchTime in any case.
func (b *Batcher) deadline(batch []*Call) time.Time {
	now := b.now()
	longest, end := now.Add(b.budget), now.Add(batchTime)
	for _, c := range batch {
		if c.until.IsZero() {
			return longest
		}
		if c.until.After(end) {
			end = c.until
		}
	}
	if end.After(longest) {
		return longest
	}
	return end
}

// next takes the calls of the next batch from the queue, in order of arrival.
// Without any the sender is idle under the same lock: a call that arrives afterwards
// makes it send.
func (b *Batcher) next(batch []*Call) ([]*Call, departure) {
	b.mu.Lock()
	defer b.mu.Unlock()
	rules, taken := 0, 0
	for _, c := range b.waiting {
		if n := len(c.keys); len(batch) > 0 && (len(batch) == maxBatch || rules+n > maxBatchRules) {
			break
		} else if c.state.CompareAndSwap(callWaits, callIsSent) {
			batch, rules = append(batch, c), rules+n
		}
		taken++
	}
	b.queued.Add(-int64(taken))
	left := copy(b.waiting, b.waiting[taken:])
	clear(b.waiting[left:])
	b.waiting = b.waiting[:left]
	if len(batch) == 0 {
		b.flying--
		b.idle++
		return batch, departure{}
	}
	b.depart()
	b.crowded = len(batch) > 1
	for _, c := range batch {
		c.Trip, c.left = b.trips, b.left
	}
	return batch, b.left
}

// bundle puts the calls of a batch into as few bundles as possible, in order. It
// reuses the bundles beyond the length of the slice.
func (b *Batcher) bundle(bundles []*bundle, batch []*Call) []*bundle {
	for _, c := range batch {
		at := len(bundles)
		if b.batching == BatchScript {
			for at = 0; at < len(bundles) && !bundles[at].fits(c); at++ {
			}
		}
		if at == len(bundles) {
			if bundles = bundles[:at]; at < cap(bundles) && bundles[:at+1][at] != nil {
				bundles = bundles[:at+1]
			} else {
				bundles = append(bundles, new(bundle))
			}
		}
		bundles[at].add(c)
	}
	return bundles
}

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
