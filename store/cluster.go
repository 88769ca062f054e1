package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
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
	mu      sync.Mutex                  // guards known, looking and closed
	known   map[string]*node
	looking *slotLook // the look at the slots that is under way, nil without
	closed  bool
	owning  atomic.Pointer[[]*node] // those that had slots at the last look

	wake    chan struct{} // asks for a look at the slots
	running sync.WaitGroup
	ctx     context.Context // ends with close
	cancel  context.CancelFunc
}

// node is one server of a Cluster.
type node struct {
	addr    string
	client  *redis.Client
	batches *batches
	breaker breaker
	away    atomic.Bool // it is not asked until it is found again
}

const (
	// lookEvery is the least time between two looks at the slots.
	lookEvery = 50 * time.Millisecond
	// lookAnyway is how long the slots are believed while all is well.
	lookAnyway = 10 * time.Second
)

// start looks at the slots and watches them until close.
func (k *nodes) start() {
	k.known = make(map[string]*node)
	k.wake = make(chan struct{}, 1)
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.running.Go(k.watch)
}

// close ends the calls under way and the connections.
func (k *nodes) close() error {
	k.mu.Lock()
	k.closed = true // nothing begins any more
	k.mu.Unlock()
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

// spawn runs f, which close waits for. It tells whether it does: after close
// nothing begins.
func (k *nodes) spawn(f func()) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.closed {
		k.running.Go(f)
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
	return n
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
			finding.Go(func() { _ = k.find(k.ctx, n) }) // without success it stays away
		}
	}
	finding.Wait()
}

// slotLook is one look at who has which slot, which many may wait for.
type slotLook struct {
	done chan struct{} // closed at the end
	err  error         // valid then
}

// learn looks at who has which slot, or waits for the look that is under way:
// however many callers miss a slot, the nodes are asked once.
func (k *nodes) learn(ctx context.Context) error {
	k.mu.Lock()
	look := k.looking
	if look == nil && !k.closed {
		look = &slotLook{done: make(chan struct{})}
		k.looking = look
		k.running.Go(func() { k.lookNow(look) }) //nolint:contextcheck // it is many callers', and outlives each
	}
	k.mu.Unlock()
	if look == nil {
		return redis.ErrClosed
	}
	select {
	case <-look.done:
		return look.err
	case <-ctx.Done():
	case <-departed(ctx):
	}
	return fmt.Errorf("no node told of the slots in time: %w", ctx.Err())
}

// lookNow is the look itself.
func (k *nodes) lookNow(look *slotLook) {
	var told slotMap
	if told, look.err = askFirst(k.ctx, k, k.tellers(), askSlots); look.err == nil {
		k.believe(told)
	}
	k.mu.Lock()
	k.looking = nil
	k.mu.Unlock()
	close(look.done)
}

// tellers are the nodes in the order in which they are asked for the slots:
// first those that had some and were not away.
func (k *nodes) tellers() []*node {
	var first, others []*node
	for _, seed := range k.seeds {
		k.at(seed)
	}
	had := k.owning.Load()
	for _, n := range k.all() {
		if !n.away.Load() && had != nil && slices.Contains(*had, n) {
			first = append(first, n)
		} else {
			others = append(others, n)
		}
	}
	return append(first, others...)
}

// slotMap is what a node tells of the slots.
type slotMap struct {
	by     *node
	ranges []redis.ClusterSlot
}

func askSlots(ctx context.Context, n *node) (slotMap, error) {
	ranges, err := n.client.ClusterSlots(ctx).Result() //nolint:staticcheck // Redis 6.2 has no CLUSTER SHARDS
	if err != nil {
		return slotMap{}, fmt.Errorf("asking %s for the slots: %w", n.addr, err)
	}
	return slotMap{n, ranges}, nil
}

// believe takes the slots to be as a node tells.
func (k *nodes) believe(told slotMap) {
	var owning []*node
	for _, r := range told.ranges {
		if len(r.Nodes) == 0 || r.Start < 0 || r.End >= slots {
			continue
		}
		owner := k.at(told.by.near(r.Nodes[0].Addr))
		if owner == nil {
			return // closed
		}
		if !slices.Contains(owning, owner) {
			owning = append(owning, owner)
		}
		for slot := r.Start; slot <= r.End; slot++ {
			if k.owners[slot].Load() != owner {
				k.owners[slot].Store(owner)
			}
		}
	}
	k.owning.Store(&owning)
}

// near is an address as a node tells it, which may leave its own host out.
func (n *node) near(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host != "" && host != "?" {
		return addr
	}
	own, _, _ := net.SplitHostPort(n.addr)
	return net.JoinHostPort(own, port)
}

// owner is the node that has a slot, as far as it is known.
func (k *nodes) owner(ctx context.Context, slot uint16) (*node, error) {
	if n := k.owners[slot].Load(); n != nil {
		return n, nil
	}
	if err := k.learn(ctx); err != nil {
		return nil, err
	}
	if n := k.owners[slot].Load(); n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("CLUSTERDOWN no node has the slot %d", slot)
}
