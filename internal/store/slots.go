package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// slotLook is one look at who has which slot, which many may wait for.
type slotLook struct {
	number uint64        // from 1
	done   chan struct{} // closed at the end
	err    error         // valid then
}

// lookError is what a look at the slots has met with.
type lookError struct {
	number uint64 // of the look
	err    error
}

func (e *lookError) Error() string { return e.err.Error() }

// Unwrap is what it has met with.
func (e *lookError) Unwrap() error { return e.err }

// lookOf is the number of the look at the slots that failed a call, which may be
// that of other calls too; 0 where none did.
func lookOf(err error) uint64 {
	var look *lookError
	if errors.As(err, &look) {
		return look.number
	}
	return 0
}

// learn looks at who has which slot, or waits for the look that is under way:
// however many callers miss a slot, the nodes are asked once.
func (k *nodes) learn(ctx context.Context) error {
	k.mu.Lock()
	look := k.looking
	if look == nil && !k.closed {
		k.looks++
		look = &slotLook{number: k.looks, done: make(chan struct{})}
		k.looking = look
		k.running.Go(func() { k.lookNow(look) })
	}
	k.mu.Unlock()
	if look == nil {
		return redis.ErrClosed
	}
	select {
	case <-look.done:
		if look.err != nil {
			return &lookError{look.number, look.err}
		}
		return nil
	case <-ctx.Done():
	case <-departed(ctx):
	}
	return &lookError{look.number, fmt.Errorf("no node told of the slots in time: %w", ctx.Err())}
}

// lookNow is the look itself.
func (k *nodes) lookNow(look *slotLook) {
	var told slotMap
	told, look.err = askFirst(k.ctx, k, k.tellers(), askSlots)
	if look.err == nil && !k.believe(told) {
		look.err = redis.ErrClosed
	}
	k.mu.Lock()
	k.looking = nil
	if look.err == nil {
		k.looked = time.Now()
	}
	k.mu.Unlock()
	close(look.done)
	if look.err == nil {
		k.drop(*k.owning.Load())
	}
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

// askSlots asks a node who has which slot. One that knows of none was reset, or
// is not of the Cluster any more: another one is to tell.
func askSlots(ctx context.Context, n *node) (slotMap, error) {
	ranges, err := n.client.ClusterSlots(ctx).Result() //nolint:staticcheck // Redis 6.2 has no CLUSTER SHARDS
	if err == nil && !slices.ContainsFunc(ranges, isOwned) {
		err = clusterDown("it knows of no slots")
	}
	if err != nil {
		return slotMap{}, fmt.Errorf("asking %s for the slots: %w", n.addr, err)
	}
	return slotMap{n, ranges}, nil
}

// isOwned tells whether a range has slots and an owner.
func isOwned(r redis.ClusterSlot) bool {
	return len(r.Nodes) > 0 && 0 <= r.Start && r.Start <= r.End && r.End < slots
}

// clusterDown is what the map of the slots says where a node would say
// CLUSTERDOWN.
func clusterDown(text string) error { return saying("CLUSTERDOWN " + text) }

// believe takes the slots to be as a node tells. It tells whether it does: after
// close there is no node to believe it of.
func (k *nodes) believe(told slotMap) bool {
	var owning []*node
	for _, r := range told.ranges {
		if !isOwned(r) {
			continue
		}
		owner := k.at(told.by.near(r.Nodes[0].Addr))
		if owner == nil {
			return false
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
	return true
}

// near is an address as a node tells it, which may leave its own host out. The
// host of IPv6 comes without brackets: what is behind the last colon is the port.
func (n *node) near(addr string) string {
	colon := strings.LastIndexByte(addr, ':')
	if colon < 0 {
		return addr
	}
	host, port := strings.Trim(addr[:colon], "[]"), addr[colon+1:]
	if host == "" || host == "?" {
		host, _, _ = net.SplitHostPort(n.addr)
	}
	return net.JoinHostPort(host, port)
}

// owner is the node that has a slot, as far as it is known. Where nobody has
// it, the nodes are asked again, but not for each of its calls.
func (k *nodes) owner(ctx context.Context, slot uint16) (*node, error) {
	if n := k.owners[slot].Load(); n != nil {
		return n, nil
	}
	k.mu.Lock()
	fresh := time.Since(k.looked) < lookEvery
	k.mu.Unlock()
	if !fresh {
		if err := k.learn(ctx); err != nil {
			return nil, err
		}
	}
	if n := k.owners[slot].Load(); n != nil {
		return n, nil
	}
	return nil, &nodeError{addr: ofSlot(slot), err: clusterDown("nobody has it")}
}
