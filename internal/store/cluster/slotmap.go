package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// slotRefresh is one refresh of the slot map, which many callers may wait for.
type slotRefresh struct {
	number uint64        // from 1
	done   chan struct{} // closed at the end
	err    error         // valid after that
}

// refreshError is the error of a refresh of the slot map.
type refreshError struct {
	number uint64 // of the refresh
	err    error
}

func (e *refreshError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *refreshError) Unwrap() error { return e.err }

// refreshOf returns the number of the refresh that failed a call; other calls
// may have failed by the same one. It is 0 if no refresh failed the call.
func refreshOf(err error) uint64 {
	var failed *refreshError
	if errors.As(err, &failed) {
		return failed.number
	}
	return 0
}

// refresh reads the slot map, or waits for the refresh that is under way: however
// many callers need it, the nodes receive one query.
func (k *nodes) refresh(ctx context.Context) error {
	k.mu.Lock()
	current := k.current
	if current == nil && !k.closed {
		k.refreshes++
		current = &slotRefresh{number: k.refreshes, done: make(chan struct{})}
		k.current = current
		k.running.Go(func() { k.runRefresh(current) })
	}
	k.mu.Unlock()
	if current == nil {
		return goredis.ErrClosed
	}
	select {
	case <-current.done:
		if current.err != nil {
			return &refreshError{current.number, current.err}
		}
		return nil
	case <-ctx.Done():
	case <-redis.Departed(ctx):
	}
	return &refreshError{current.number, fmt.Errorf("no node returned the slot map in time: %w", ctx.Err())}
}

// runRefresh carries out a refresh.
func (k *nodes) runRefresh(r *slotRefresh) {
	var ranges []goredis.ClusterSlot
	if ranges, r.err = firstAnswer(k.ctx, k, k.queryOrder(), querySlots); r.err == nil {
		r.err = k.apply(ranges)
	}
	k.mu.Lock()
	k.current = nil
	if r.err == nil {
		k.refreshed = time.Now()
	}
	k.mu.Unlock()
	close(r.done)
	if r.err == nil {
		k.drop()
	}
}

// queryOrder returns the nodes in the order in which they are queried for the
// slot map: first the reachable ones that owned slots.
func (k *nodes) queryOrder() []*node {
	var first, rest []*node
	for _, seed := range k.seeds {
		k.at(seed)
	}
	masters := k.masters()
	for _, n := range k.all() {
		if !n.unreachable.Load() && slices.Contains(masters, n) {
			first = append(first, n)
		} else {
			rest = append(rest, n)
		}
	}
	return append(first, rest...)
}

// querySlots queries a node for the slot map. It returns the ranges that have an
// owner, with the address of each owner completed. A node that knows no owner was
// reset, or is not part of the Cluster any more: another node must answer.
func querySlots(ctx context.Context, n *node) ([]goredis.ClusterSlot, error) {
	ranges, err := n.client.ClusterSlots(ctx).Result() //nolint:staticcheck // Redis 6.2 has no CLUSTER SHARDS
	ranges = slices.DeleteFunc(ranges, isUnowned)
	if err == nil && len(ranges) == 0 {
		err = clusterDown("it has no slot map")
	}
	if err != nil {
		return nil, fmt.Errorf("query %s for the slot map: %w", n.addr, err)
	}
	for _, r := range ranges {
		r.Nodes[0].Addr = n.resolve(r.Nodes[0].Addr)
	}
	return ranges, nil
}

// isUnowned reports whether a range has no owner, or is not a range of slots.
func isUnowned(r goredis.ClusterSlot) bool {
	return len(r.Nodes) == 0 || r.Start < 0 || r.End < r.Start || r.End >= slots
}

// clusterDown returns the error that a node would reply with CLUSTERDOWN.
func clusterDown(text string) error { return redisconn.Reply("CLUSTERDOWN " + text) }

// apply replaces the slot map. It fails only after close, when no node can be
// added.
func (k *nodes) apply(ranges []goredis.ClusterSlot) error {
	var masters []*node
	for _, r := range ranges {
		owner := k.at(r.Nodes[0].Addr)
		if owner == nil {
			return goredis.ErrClosed
		}
		if !slices.Contains(masters, owner) {
			masters = append(masters, owner)
		}
		for slot := r.Start; slot <= r.End; slot++ {
			if k.owners[slot].Load() != owner {
				k.owners[slot].Store(owner)
			}
		}
	}
	k.owning.Store(&masters)
	return nil
}

// masters returns the nodes that owned slots at the last refresh; nil before the
// first. It must not be changed.
func (k *nodes) masters() []*node {
	if list := k.owning.Load(); list != nil {
		return *list
	}
	return nil
}

// resolve completes an address that the node returned: it may omit its own host.
// IPv6 hosts appear without brackets, so the port follows the last colon.
func (n *node) resolve(addr string) string {
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

// owner returns the node that owns a slot. If the owner is unknown it refreshes
// the slot map, but not for each call of that slot.
func (k *nodes) owner(ctx context.Context, slot uint16) (*node, error) {
	if n := k.owners[slot].Load(); n != nil {
		return n, nil
	}
	k.mu.Lock()
	fresh := time.Since(k.refreshed) < refreshEvery
	k.mu.Unlock()
	if !fresh {
		if err := k.refresh(ctx); err != nil {
			return nil, err
		}
	}
	if n := k.owners[slot].Load(); n != nil {
		return n, nil
	}
	return nil, &nodeError{addr: ofSlot(slot), err: clusterDown("no node owns it")}
}
