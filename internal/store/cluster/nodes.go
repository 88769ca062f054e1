package cluster

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/delay"
	"github.com/koalagate/koalagate/internal/store/breaker"
	"github.com/koalagate/koalagate/internal/store/redis"
)

// nodes are the nodes of a Cluster and the slots that each of them owns. The
// client library can follow slots by itself, but repeats calls that may have
// been counted. nodes repeats only calls that a node refused with MOVED, ASK or
// TRYAGAIN, which did not run.
type nodes struct {
	seeds     []string
	evaluator *redis.Evaluator
	connect   func(addr string) *goredis.Client
	check     func(context.Context, *node) error // returns why a node cannot count

	owners    [slots]atomic.Pointer[node] // nil if unknown
	mu        sync.Mutex                  // guards what follows, up to closed
	known     map[string]*node
	current   *slotRefresh // the refresh of the slot map under way; nil for none
	refreshes uint64       // number of refreshes that have begun
	refreshed time.Time    // when the last one succeeded
	closed    bool
	owning    atomic.Pointer[[]*node] // for masters

	wake    chan struct{} // requests a refresh of the slot map
	running sync.WaitGroup
	undoing sync.WaitGroup  // give-backs under way, which close waits for
	ctx     context.Context // ends with close
	cancel  context.CancelFunc
}

var _ redis.Sender = (*nodes)(nil)

// node is one server of a Cluster.
type node struct {
	addr        string
	client      *goredis.Client
	batcher     *redis.Batcher
	breaker     breaker.Breaker
	unreachable atomic.Bool           // no call is sent to it until a check succeeds
	reason      atomic.Pointer[error] // why it is unreachable; wraps errUnreachable and the cause
	named       time.Time             // when a node or a caller last named it; nodes.mu guards it
}

const (
	// refreshEvery is the least time between two refreshes of the slot map.
	refreshEvery = 50 * time.Millisecond
	// refreshAnyway is the time after which the slot map is refreshed even if no
	// call failed.
	refreshAnyway = 10 * time.Second
	// keepUnnamed is how long a node without slots is kept. A node that slots
	// are moving to is named by each call that goes there.
	keepUnnamed = time.Minute
)

// start reads the slot map and keeps it current until close.
func (k *nodes) start() {
	k.known = make(map[string]*node)
	k.wake = make(chan struct{}, 1)
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.running.Go(k.watch)
}

// close waits for the give-backs, ends the calls under way and closes the
// connections.
func (k *nodes) close() error {
	k.mu.Lock()
	k.closed = true // nothing new begins
	k.mu.Unlock()
	k.undoing.Wait()
	k.cancel()
	var faults []error
	for _, n := range k.known {
		faults = append(faults, n.close())
	}
	k.running.Wait()
	return errors.Join(faults...)
}

// close ends the calls under way and closes the connections. The connections
// come first: a call that waits for a hanging node does not check its context.
func (n *node) close() error {
	err := n.client.Close()
	n.batcher.Close()
	return err
}

// spawn runs f in one of the groups that close waits for, and reports whether it
// does: after close nothing begins.
func (k *nodes) spawn(group *sync.WaitGroup, f func()) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.closed {
		group.Go(f)
	}
	return !k.closed
}

// at returns the node with an address; nil after close.
func (k *nodes) at(addr string) *node {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.known[addr]
	if n == nil && !k.closed {
		n = &node{addr: addr, client: k.connect(addr)}
		n.batcher = k.evaluator.NewBatcher(n.client)
		k.known[addr] = n
	}
	if n != nil {
		n.named = time.Now()
	}
	return n
}

// drop forgets the nodes that have left the Cluster: they own no slots, are not
// among the seeds, and are unreachable or were not named for long.
func (k *nodes) drop() {
	var left []*node
	masters := k.masters()
	k.mu.Lock()
	for addr, n := range k.known {
		if !k.closed && !slices.Contains(masters, n) && !slices.Contains(k.seeds, addr) &&
			(n.unreachable.Load() || time.Since(n.named) > keepUnnamed) {
			delete(k.known, addr)
			left = append(left, n)
		}
	}
	k.mu.Unlock()
	for _, n := range left {
		for slot := range k.owners {
			k.owners[slot].CompareAndSwap(n, nil)
		}
		n.markUnreachable(errors.New("it has left the Cluster")) // for calls that still refer to it
		_ = n.close()                                            // no caller can receive the error
	}
}

// all returns the known nodes in random order.
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

// unreachable returns the unreachable nodes.
func (k *nodes) unreachable() []*node {
	return slices.DeleteFunc(k.all(), func(n *node) bool { return !n.unreachable.Load() })
}

// requestRefresh requests a refresh of the slot map soon.
func (k *nodes) requestRefresh() {
	select {
	case k.wake <- struct{}{}:
	default: // one is due
	}
}

// watch keeps the slot map current: it refreshes the map when a call was
// redirected or failed, and while a node is unreachable.
func (k *nodes) watch() {
	_ = k.refresh(k.ctx) // calls report its error
	for {
		wait := refreshAnyway
		if len(k.unreachable()) > 0 {
			wait = refreshEvery
		}
		select {
		case <-k.ctx.Done():
			return
		case <-k.wake:
		case <-time.After(wait):
		}
		_ = k.refresh(k.ctx) // as above
		k.checkUnreachable()
		if !delay.Wait(k.ctx, refreshEvery) { // at most one refresh in this time
			return
		}
	}
}

// checkUnreachable checks all unreachable nodes at the same time: one that hangs
// delays none of the others.
func (k *nodes) checkUnreachable() {
	var checking sync.WaitGroup
	for _, n := range k.unreachable() {
		checking.Go(func() {
			if err := k.check(k.ctx, n); err != nil && k.ctx.Err() == nil {
				n.markUnreachable(err) // the reason may have changed
			}
		})
	}
	checking.Wait()
}
