package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
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

	owners [slots]atomic.Pointer[node] // nil where it is not known
	mu     sync.Mutex                  // guards known and closed
	known  map[string]*node
	closed bool
	owning atomic.Pointer[[]*node] // those that had slots at the last look

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
	k.cancel()
	k.running.Wait()
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	var faults []error
	for _, n := range k.known {
		n.batches.close()
		faults = append(faults, n.client.Close())
	}
	return errors.Join(faults...)
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
		for _, n := range k.all() {
			if n.away.Load() && k.find(k.ctx, n) == nil {
				n.breaker.reset()
				n.away.Store(false)
			}
		}
		select { // not more often than that
		case <-k.ctx.Done():
			return
		case <-time.After(lookEvery):
		}
	}
}

// learn asks the nodes one after the other who has which slot, until one tells.
// Those that answered last come first.
func (k *nodes) learn(ctx context.Context) error {
	var there, away []*node
	for _, n := range k.all() {
		if n.away.Load() {
			away = append(away, n)
		} else {
			there = append(there, n)
		}
	}
	for _, seed := range k.seeds {
		if n := k.at(seed); n != nil {
			away = append(away, n)
		}
	}
	var faults []error
	for _, n := range append(there, away...) {
		err := k.learnFrom(ctx, n)
		if err == nil || ctx.Err() != nil {
			return err
		}
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

func (k *nodes) learnFrom(ctx context.Context, n *node) error {
	ctx, cancel := context.WithTimeout(ctx, k.budget)
	defer cancel()
	ranges, err := n.client.ClusterSlots(ctx).Result() //nolint:staticcheck // Redis 6.2 has no CLUSTER SHARDS
	if err != nil {
		return fmt.Errorf("asking %s for the slots: %w", n.addr, err)
	}
	var owning []*node
	for _, r := range ranges {
		if len(r.Nodes) == 0 || r.Start < 0 || r.End >= slots {
			continue
		}
		owner := k.at(n.near(r.Nodes[0].Addr))
		owning = append(owning, owner)
		for slot := r.Start; slot <= r.End; slot++ {
			if k.owners[slot].Load() != owner {
				k.owners[slot].Store(owner)
			}
		}
	}
	k.owning.Store(&owning)
	return nil
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
