package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Batching is how the calls of many callers go to Redis.
type Batching string

// The ways of batching. The answers are the same; what they cost is not.
const (
	// BatchScript has one script call carry out all calls that have gathered
	// while the one before was on its way: the least work for Redis.
	BatchScript Batching = "script"
	// BatchPipeline sends the calls that have gathered in one round trip, each
	// as a script call of its own.
	BatchPipeline Batching = "pipeline"
	// BatchOff sends each call by itself.
	BatchOff Batching = "off"
)

// checkBatching returns the way that is asked for, which is BatchScript if none is.
func checkBatching(b Batching) (Batching, error) {
	switch b {
	case "":
		return BatchScript, nil
	case BatchScript, BatchPipeline, BatchOff:
		return b, nil
	}
	return "", fmt.Errorf("redis batching %q: want %s, %s or %s", b, BatchScript, BatchPipeline, BatchOff)
}

const (
	// maxFlying is the number of batches under way at a time. The second one
	// goes when as many calls wait as a batch holds, or when the first is
	// overdue: fewer and fuller ones cost everybody less, and the first that
	// hangs must not hold up all.
	maxFlying = 2
	// overdue is longer than a batch takes unless Redis is far away or slow.
	overdue = 5 * time.Millisecond
	// batchTime is how long a batch may take even when its callers are gone: one
	// that is broken off costs its connection, and a Redis that is only slow
	// would be slower for it.
	batchTime = DefaultBudget
	// maxBatch and maxBatchRules bound what Redis does without a break for
	// anybody else: about a millisecond.
	maxBatch      = 64
	maxBatchRules = 256
	// maxWaiting bounds the calls that wait for a batch. At a hundred
	// thousand a second these are done in the time of a budget.
	maxWaiting = 10_000
)

var errWaiting = errors.New("redis: too many calls wait for it")

// batches gathers calls: what has gathered goes when a batch returns. Nobody
// waits for others to come, so a lone call goes at once, and the more calls
// there are the less each of them costs.
type batches struct {
	batching Batching
	budget   time.Duration
	send     func(context.Context, []*bundle) // ends every call in them
	now      func() time.Time
	ctx      context.Context // ends with close
	cancel   context.CancelFunc
	lone     sync.Pool // of bundles for one call
	after    func(time.Duration, func()) timer

	mu      sync.Mutex
	waiting []*call
	flying  int
	trips   uint64    // batches that have left
	left    time.Time // when the last of them did
	closed  bool
	running sync.WaitGroup
	watch   timer // nil until a call waits for the first time
	watched bool  // watch will go off
}

// timer is what of a time.Timer is used.
type timer interface {
	Reset(time.Duration) bool
	Stop() bool
}

func newBatches(batching Batching, budget time.Duration, send func(context.Context, []*bundle)) *batches {
	b := &batches{batching: batching, budget: budget, send: send, now: time.Now}
	b.after = func(d time.Duration, f func()) timer { return time.AfterFunc(d, f) }
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.lone.New = func() any { return &[]*bundle{new(bundle)} }
	return b
}

// close ends the batches under way, and waits for them.
func (b *batches) close() {
	b.mu.Lock()
	b.closed = true
	if b.watched && b.watch.Stop() {
		b.running.Done()
	}
	b.mu.Unlock()
	b.cancel()
	b.running.Wait()
}

// The states of a call on its way.
const (
	callWaits  = iota // may still be withdrawn
	callIsSent        // may have been counted
	callIsGone        // its caller left before it was sent: nobody will send it
)

// delivery is what a call carries on its way through a batch.
type delivery struct {
	state atomic.Int32
	until time.Time     // when its caller's time ends; zero if never
	trip  uint64        // the number of its batch, or of the last before it where it was not sent
	done  chan struct{} // has room for one: a batch never waits for a caller
	err   error
}

// end tells the caller that the call is over.
func (d *delivery) end(err error) {
	d.err = err
	d.done <- struct{}{}
}

// run has the script carry out c. Where the caller's time ends first, lost
// tells that a batch may still hold c: it must not be used again.
func (b *batches) run(ctx context.Context, c *call) (lost bool, err error) {
	if c.done == nil {
		c.done = make(chan struct{}, 1)
	}
	c.state.Store(callWaits)
	c.until, _ = ctx.Deadline()
	alone, err := b.add(c) //nolint:contextcheck // a batch is many callers', and outlives each
	switch {
	case err != nil:
		return false, err
	case alone:
		b.flyAlone(ctx, c)
		<-c.done
		return false, c.err
	}
	select {
	case <-c.done:
		return false, c.err
	case <-ctx.Done():
	case <-departed(ctx):
	}
	if b.withdraw(c) {
		return true, fmt.Errorf("the call was not sent in time: %w", ctx.Err())
	}
	return true, ctx.Err()
}

// withdraw takes c back, and tells whether it was not sent yet: then it waited
// in vain for the batch that left last.
func (b *batches) withdraw(c *call) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !c.state.CompareAndSwap(callWaits, callIsGone) {
		return false
	}
	c.trip = b.trips
	return true
}

// ask has the script carry out c beside all batches: one that looks whether
// Redis is there is not to wait for those that hang.
func (b *batches) ask(ctx context.Context, c *call) error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return redis.ErrClosed
	}
	b.running.Add(1)
	b.mu.Unlock()
	defer b.running.Done()
	c.done = make(chan struct{}, 1)
	b.sendLone(ctx, c)
	<-c.done
	return c.err
}

// flyAlone sends c by itself, as the only call under way. A panic on the way is
// its caller's, who may live on: it leaves nothing behind that others wait for.
func (b *batches) flyAlone(ctx context.Context, c *call) {
	defer b.landed() //nolint:contextcheck // what it sends is others'
	b.sendLone(ctx, c)
}

// sendLone sends c by itself.
func (b *batches) sendLone(ctx context.Context, c *call) {
	one := b.lone.Get().(*[]*bundle)
	(*one)[0].add(c)
	b.send(ctx, *one)
	(*one)[0].empty()
	b.lone.Put(one)
}

// add puts c behind the calls that wait, and sees to it that they are sent. A
// call that finds nobody before it is alone: its caller sends it himself, which
// saves the way to another goroutine and back.
func (b *batches) add(c *call) (alone bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.trip = b.trips
	switch {
	case b.closed:
		return false, redis.ErrClosed
	case len(b.waiting) >= maxWaiting:
		return false, errWaiting
	case b.flying == 0 || b.batching == BatchOff:
		b.flying++
		b.running.Add(1)
		b.left = b.now()
		b.trips++
		c.trip = b.trips
		return true, nil
	}
	b.waiting = append(b.waiting, c)
	switch {
	case b.flying == maxFlying:
	case len(b.waiting) >= maxBatch:
		b.fly()
	case !b.watched:
		b.watchOver()
	}
	return false, nil
}

// fly starts one more sender.
func (b *batches) fly() {
	b.flying++
	b.running.Add(1)
	go b.sendAll()
}

// watchOver has a look taken at the batch under way when it is overdue: calls
// that wait behind one that hangs are not to need a newcomer to leave. It is not
// called off, since most batches land long before, and then a look every overdue
// costs less than a timer for each.
func (b *batches) watchOver() {
	b.watched = true
	b.running.Add(1)
	if rest := overdue - b.now().Sub(b.left); b.watch == nil {
		b.watch = b.after(rest, b.look)
	} else {
		b.watch.Reset(rest)
	}
}

// look sends the calls that wait, if the batch that they wait for is overdue.
func (b *batches) look() {
	defer b.running.Done()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watched = false
	switch {
	case b.closed, len(b.waiting) == 0, b.flying == maxFlying:
	case b.now().Sub(b.left) >= overdue:
		b.fly()
	default:
		b.watchOver()
	}
}

// landed ends a lone call, and sends what has gathered meanwhile.
func (b *batches) landed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) > 0 {
		go b.sendAll()
		return
	}
	b.flying--
	b.running.Done()
}

// sendAll sends batches until no call waits.
func (b *batches) sendAll() {
	defer b.running.Done()
	var batch []*call
	var bundles []*bundle
	for {
		if batch = b.next(batch[:0]); len(batch) == 0 {
			return
		}
		bundles = b.bundle(bundles[:0], batch)
		ctx, cancel := context.WithDeadline(b.ctx, b.deadline(batch))
		b.send(ctx, bundles)
		cancel()
		clear(batch)
		for _, one := range bundles {
			one.empty()
		}
	}
}

// deadline is when a batch that leaves now has to be over: when nobody waits for
// it any longer, and within the budget. It has batchTime in any case.
func (b *batches) deadline(batch []*call) time.Time {
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

// next takes the calls that go next, in the order in which they came. Without
// any it counts the sender out, in one step with the look: a call that comes
// then starts a sender of its own.
func (b *batches) next(batch []*call) []*call {
	b.mu.Lock()
	defer b.mu.Unlock()
	rules, taken := 0, 0
	for _, c := range b.waiting {
		if n := len(c.keys); len(batch) > 0 && (len(batch) == maxBatch || rules+n > maxBatchRules) {
			break
		} else if c.state.CompareAndSwap(callWaits, callIsSent) {
			batch, rules = append(batch, c), rules+n
			c.trip = b.trips + 1
		}
		taken++
	}
	left := copy(b.waiting, b.waiting[taken:])
	clear(b.waiting[left:])
	b.waiting = b.waiting[:left]
	if len(batch) == 0 {
		b.flying--
		return batch
	}
	b.left = b.now()
	b.trips++
	return batch
}

// bundle puts the calls of a batch into as few bundles as may be, in their
// order. What bundles has beyond its length is used again.
func (b *batches) bundle(bundles []*bundle, batch []*call) []*bundle {
	for _, c := range batch {
		at := len(bundles)
		if b.batching == BatchScript {
			for at = 0; at < len(bundles) && !bundles[at].takes(c); at++ {
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
