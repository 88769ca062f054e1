package redis

import (
	"context"
	"slices"
	"time"
)

// send makes a sender send the calls that wait. It requires b.mu.
func (b *Batcher) send() {
	b.woken.Add(1)
	if b.idle > 0 {
		b.idle--
		b.start <- struct{}{}
		return
	}
	b.running.Add(1)
	go b.sendUntilClosed()
}

// setWatch sets the timer for when the batch under way is overdue: calls that
// wait behind one that hangs must not need another call to be sent. The timer
// is not stopped when the batch lands, because most batches land long before: a
// timer that expires every overdue costs less than setting one per batch.
func (b *Batcher) setWatch() {
	b.watched = true
	b.running.Add(1)
	if rest := overdue - b.now().Sub(b.left.at); b.watch == nil {
		b.watch = b.after(rest, b.checkOverdue)
	} else {
		b.watch.Reset(rest)
	}
}

// checkOverdue sends the waiting calls if the batch that they wait for is
// overdue.
func (b *Batcher) checkOverdue() {
	defer b.running.Done()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watched = false
	switch {
	case b.closed, len(b.waiting) == 0, b.flying == maxFlying:
	case b.now().Sub(b.left.at) >= overdue:
		b.flying++
		b.send()
	default:
		b.setWatch()
	}
}

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
	b.woken.Add(int64(len(batch)))
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
