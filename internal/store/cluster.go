package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// nodes are those of a Cluster, and which of them has which slot. The client's
// own way to do this repeats calls that may have been counted, so it is done
// here: what a node refuses with MOVED, ASK or TRYAGAIN was not executed and is
// made again where it says; nothing else is.
type nodes struct {
	seeds    []string
	budget   time.Duration
	batching Batching
	connect  func(addr string) *redis.Client
	exchange func(context.Context, redis.UniversalClient, []*bundle)
	find     func(context.Context, *node) error // whether a node can count

	owners  [slots]atomic.Pointer[node] // nil where it is not known
	mu      sync.Mutex                  // guards what follows, up to closed
	known   map[string]*node
	looking *slotLook // the look at the slots that is under way, nil without
	looks   uint64    // looks that have begun
	looked  time.Time // when the last one succeeded
	closed  bool
	owning  atomic.Pointer[[]*node] // those that had slots at the last look

	wake    chan struct{} // asks for a look at the slots
	running sync.WaitGroup
	backing sync.WaitGroup  // of what is given back, which close does not cut off
	ctx     context.Context // ends with close
	cancel  context.CancelFunc
}

// node is one server of a Cluster.
type node struct {
	addr    string
	client  *redis.Client
	batches *batches
	breaker breaker
	away    atomic.Bool           // it is not asked until it is found again
	why     atomic.Pointer[error] // what it is away with; errAway and the cause
	named   time.Time             // when it was last told of, or asked for; k.mu guards it
}

const (
	// lookEvery is the least time between two looks at the slots.
	lookEvery = 50 * time.Millisecond
	// lookAnyway is how long the slots are believed while all is well.
	lookAnyway = 10 * time.Second
	// keepUnnamed is how long a node without slots is kept: one that slots are
	// on their way to is told of with each call that goes there.
	keepUnnamed = time.Minute
)

// start looks at the slots and watches them until close.
func (k *nodes) start() {
	k.known = make(map[string]*node)
	k.wake = make(chan struct{}, 1)
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.running.Go(k.watch)
}

// close waits for what is being given back, and ends the calls under way and the
// connections.
func (k *nodes) close() error {
	k.mu.Lock()
	k.closed = true // nothing begins any more
	k.mu.Unlock()
	k.backing.Wait()
	k.cancel()
	var faults []error
	for _, n := range k.known {
		faults = append(faults, n.close())
	}
	k.running.Wait()
	return errors.Join(faults...)
}

// close ends the calls under way and the connections. The connections go
// first: a call that waits for a node that hangs does not look at its context.
func (n *node) close() error {
	err := n.client.Close()
	n.batches.close()
	return err
}

// spawn runs f in one of the groups that close waits for. It tells whether it
// does: after close nothing begins.
func (k *nodes) spawn(group *sync.WaitGroup, f func()) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.closed {
		group.Go(f)
	}
	return !k.closed
}

// at is the node of an address, nil after close.
func (k *nodes) at(addr string) *node {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.known[addr]
	if n == nil && !k.closed {
		n = &node{addr: addr, client: k.connect(addr), breaker: breaker{now: time.Now}}
		n.batches = newBatches(k.batching, k.budget, func(ctx context.Context, b []*bundle) { k.exchange(ctx, n.client, b) })
		k.known[addr] = n
	}
	if n != nil {
		n.named = time.Now()
	}
	return n
}

// drop forgets the nodes that have left the Cluster: they have no slots, are
// not among those that an operator named, and are away or were not told of for
// long.
func (k *nodes) drop(owning []*node) {
	var left []*node
	k.mu.Lock()
	for addr, n := range k.known {
		if !k.closed && !slices.Contains(owning, n) && !slices.Contains(k.seeds, addr) &&
			(n.away.Load() || time.Since(n.named) > keepUnnamed) {
			delete(k.known, addr)
			left = append(left, n)
		}
	}
	k.mu.Unlock()
	for _, n := range left {
		for slot := range k.owners {
			k.owners[slot].CompareAndSwap(n, nil)
		}
		n.leave(errors.New("it has left the Cluster")) // for a call that still has it
		_ = n.close()                                  // nobody is left to be told
	}
}

// all are the nodes that were met so far.
func (k *nodes) all() []*node {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := make([]*node, 0, len(k.known))
	for _, n := range k.known {
		list = append(list, n)
	}
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] }) //nolint:gosec // an order needs no secrets
	return list
}

// look asks for a look at the slots soon.
func (k *nodes) look() {
	select {
	case k.wake <- struct{}{}:
	default: // one is due
	}
}

// watch keeps the slots as they are: it looks at them when a call met another
// node than was thought, and as long as a node is away.
func (k *nodes) watch() {
	_ = k.learn(k.ctx) // its error is that of the calls
	for {
		wait := lookAnyway
		for _, n := range k.all() {
			if n.away.Load() {
				wait = lookEvery
			}
		}
		select {
		case <-k.ctx.Done():
			return
		case <-k.wake:
		case <-time.After(wait):
		}
		_ = k.learn(k.ctx) // as above
		k.findAway()
		select { // not more often than that
		case <-k.ctx.Done():
			return
		case <-time.After(lookEvery):
		}
	}
}

// findAway looks for the nodes that are away, for all at once: one that hangs
// keeps none of the others.
func (k *nodes) findAway() {
	var finding sync.WaitGroup
	for _, n := range k.all() {
		if n.away.Load() {
			finding.Go(func() {
				if err := k.find(k.ctx, n); err != nil && k.ctx.Err() == nil {
					n.leave(err) // still, and maybe with something else
				}
			})
		}
	}
	finding.Wait()
}
