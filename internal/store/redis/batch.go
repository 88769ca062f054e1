package redis

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store/redisconn"
)

const (
	// maxFlying is the number of batches under way at a time. The second one
	// leaves when as many calls wait as a batch holds, or when the first is
	// overdue: fewer and fuller batches cost less per call, but one that hangs
	// must not hold up all calls.
	maxFlying = 2
	// overdue is longer than a batch takes unless Redis is far away or slow.
	overdue = 5 * time.Millisecond
	// batchTime is how long a batch may take even after its callers have left.
	// Aborting a batch costs its connection, which would make a slow Redis
	// slower.
	batchTime = DefaultBudget
	// maxBatch and maxBatchRules bound the work of one script call, during
	// which Redis serves no other client, to about a millisecond.
	maxBatch      = 64
	maxBatchRules = 256
	// maxWaiting is the number of calls that may wait for a batch. At 100,000
	// calls per second these are done within a budget.
	maxWaiting = 10_000
)

// Batcher sends the calls of many callers to one server in batches. Calls that
// arrive while a batch is under way gather and leave when it returns. No call
// waits for others to arrive, so a lone call leaves at once, and the more calls
// there are, the less each of them costs.
type Batcher struct {
	batching Batching
	budget   time.Duration
	carrier  carrier
	now      func() time.Time
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	lone     sync.Pool // of bundles for one call
	after    func(time.Duration, func()) timer
	yield    func()               // lets other goroutines run
	late     func() time.Duration // see lag.Probe.Late; nil for a process that never lags

	queued *atomic.Int64 // the calls that wait, of all batchers of the evaluator
	woken  *atomic.Int64 // see Calls.Wakeups; of all of them, too

	start chan struct{} // has an element per idle sender that must send

	mu      sync.Mutex
	waiting []*Call
	flying  int
	idle    int           // senders that wait for start
	gathers bool          // the batch under way has not left yet: calls may join it
	crowded bool          // the last batch had several calls
	trips   uint64        // number of batches that have left
	left    departure     // of the last of them
	heard   time.Time     // when the last reply arrived
	pace    time.Duration // mean time that a batch takes, from its departure to its reply; 0 if unknown
	closed  bool
	running sync.WaitGroup
	watch   timer // nil until a call waits for the first time
	watched bool  // watch is set
}

var _ Sender = (*Batcher)(nil)

// carrier carries out bundles.
type carrier interface {
	// exchange ends every call in the bundles.
	exchange(ctx context.Context, bundles []*bundle)
}

// timer is the used part of a time.Timer.
type timer interface {
	Reset(time.Duration) bool
	Stop() bool
}

func newBatcher(batching Batching, budget time.Duration, to carrier) *Batcher {
	b := &Batcher{batching: batching, budget: budget, carrier: to, now: time.Now, yield: runtime.Gosched, queued: new(atomic.Int64), woken: new(atomic.Int64), start: make(chan struct{}, maxFlying)}
	b.after = func(d time.Duration, f func()) timer { return time.AfterFunc(d, f) }
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.lone.New = func() any { return &[]*bundle{new(bundle)} }
	return b
}

// Close aborts the batches under way and waits for them. Later calls fail.
func (b *Batcher) Close() {
	b.mu.Lock()
	b.closed = true
	if b.watched && b.watch.Stop() {
		b.running.Done()
	}
	b.mu.Unlock()
	b.cancel()
	b.running.Wait()
}

// Send sends c, in a batch if others are under way, and waits for its answer.
func (b *Batcher) Send(ctx context.Context, c *Call) (abandoned bool, err error) {
	if c.done == nil {
		c.done = make(chan struct{}, 1)
	}
	c.state.Store(callWaits)
	c.until, _ = ctx.Deadline()
	alone, err := b.add(c) //nolint:contextcheck // a batch belongs to many callers and outlives each
	switch {
	case err != nil:
		return false, err
	case alone:
		b.flyAlone(ctx, c)
		<-c.done
		return false, b.explain(c)
	}
	select {
	case <-c.done:
		return false, b.explain(c)
	case <-ctx.Done():
	case <-Departed(ctx):
	}
	select {
	case <-c.done: // it was answered while this goroutine waited for a CPU
		return false, b.explain(c)
	default:
	}
	return true, b.withdraw(c, ctx.Err())
}

// SendAlone sends c outside of all batches: a check whether Redis answers must
// not wait for batches that hang.
func (b *Batcher) SendAlone(ctx context.Context, c *Call) error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return goredis.ErrClosed
	}
	b.running.Add(1)
	b.mu.Unlock()
	defer b.running.Done()
	c.done = make(chan struct{}, 1)
	one := new(bundle)
	one.add(c)
	b.carrier.exchange(ctx, []*bundle{one})
	<-c.done
	return c.err
}

// flyAlone sends c as the only call under way. A panic on the way reaches its
// caller, who may recover: it must leave nothing behind that others wait for.
func (b *Batcher) flyAlone(ctx context.Context, c *Call) {
	replied := false
	defer func() { b.landed(replied, c.left) }() //nolint:contextcheck // it sends calls of other callers
	one := b.lone.Get().(*[]*bundle)
	(*one)[0].add(c)
	b.carrier.exchange(ctx, *one)
	replied = (*one)[0].replied
	(*one)[0].empty()
	b.lone.Put(one)
}

// add queues c and ensures that it will be sent. If no batch is under way, c is
// alone: its caller sends it, which saves the switch to another goroutine and
// back.
func (b *Batcher) add(c *Call) (alone bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.Trip = b.trips
	switch {
	case b.closed:
		return false, goredis.ErrClosed
	case len(b.waiting) >= maxWaiting:
		return false, redisconn.ErrQueueFull
	case b.flying == 0 || b.batching == BatchOff:
		b.flying++
		b.running.Add(1)
		b.depart()
		if b.crowded && b.gather(c) {
			return false, nil
		}
		c.Trip, c.left = b.trips, b.left
		return true, nil
	case b.hopeless(c):
		return false, errHopeless
	}
	b.waiting = append(b.waiting, c)
	b.queued.Add(1)
	switch {
	case b.flying == maxFlying:
	case len(b.waiting) >= maxBatch:
		b.flying++
		b.send()
	case !b.watched:
		b.setWatch()
	}
	return false, nil
}

// gather lets the goroutines run that are ready, before c leaves alone, and reports
// whether calls joined it: then a sender sends them together. Many callers come back at
// the same time, when the batch before has landed, and the first of them would leave
// without the others. It requires b.mu, which it unlocks meanwhile.
func (b *Batcher) gather(c *Call) (joined bool) {
	b.gathers = true
	b.mu.Unlock()
	b.yield()
	b.mu.Lock()
	b.gathers = false
	if len(b.waiting) == 0 {
		b.depart()
		return false
	}
	b.waiting = append(b.waiting, c)
	b.queued.Add(1)
	b.send()
	b.running.Done()
	return true
}

// landed ends a lone call and sends the calls that gathered meanwhile.
func (b *Batcher) landed(replied bool, left departure) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if replied {
		b.arrived(left)
	}
	if len(b.waiting) > 0 {
		b.send()
	} else {
		b.flying--
		b.crowded = false
	}
	b.running.Done()
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
