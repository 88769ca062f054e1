package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// maxRedirects bounds how often a call is sent on. A slot on its way takes
	// two, one that has just moved again one more.
	maxRedirects = 8
	// tryAgainAfter is how long a call waits for keys that are on their way.
	tryAgainAfter = 2 * time.Millisecond
)

// needsLog is what the script says of a leak counter with a log that the call
// does not name.
const needsLog = "its log is not named"

// errAway begins the answer for a node that was found away.
var errAway = errors.New("the node is away")

// nodeError is a fault of one node of a Cluster.
type nodeError struct {
	addr string
	err  error
	all  bool // no other node answers either
}

// ofSlot names the node that has a slot, where its address is not known.
func ofSlot(slot uint16) string { return fmt.Sprintf("of the slot %d", slot) }

func (e *nodeError) Error() string { return fmt.Sprintf("node %s: %v", e.addr, e.err) }

// Unwrap is what the node has met with.
func (e *nodeError) Unwrap() error { return e.err }

// ofOneNode tells whether err says nothing about the other nodes of a Cluster.
func ofOneNode(err error) bool {
	var one *nodeError
	return errors.As(err, &one) && !one.all
}

// fault is err as a fault of n.
func (k *nodes) fault(n *node, err error) error {
	owning := k.owning.Load()
	all := owning != nil
	if all {
		for _, other := range *owning {
			all = all && other.away.Load()
		}
	}
	return &nodeError{n.addr, err, all}
}

// run has the node of the call's slot carry it out, wherever that is meanwhile.
// Where the caller's time ends first, lost tells that c must not be used again.
func (k *nodes) run(ctx context.Context, c *call) (lost bool, err error) {
	n, err := k.owner(ctx, c.slot)
	if err != nil {
		return false, err
	}
	c.asking = false
	begin := time.Now()
	for redirects := 0; ; {
		if n.away.Load() {
			return false, k.fault(n, *n.why.Load())
		}
		if lost, err = n.batches.run(ctx, c); err == nil {
			n.breaker.answered()
			return false, nil
		}
		next := n
		switch {
		case lost:
		case k.isMoving(ctx, c, err):
			continue
		default:
			next = k.redirected(n, c, err)
			redirects++
		}
		if lost || next == nil || redirects > maxRedirects {
			k.judge(ctx, n, c, err, begin)
			return lost, k.fault(n, err)
		}
		n = next
	}
}

// redirected is the node that a call is to go to after n has refused it, nil if
// that is not what err says.
func (k *nodes) redirected(n *node, c *call, err error) *node {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return nil
	}
	words := strings.Fields(reply.Error())
	if len(words) != 3 {
		return nil
	}
	switch words[0] {
	case "MOVED":
		k.look() // others may have moved too
		owner := k.at(n.near(words[2]))
		k.owners[c.slot].Store(owner)
		c.asking = false
		return owner
	case "ASK":
		c.asking = true
		return k.at(n.near(words[2]))
	}
	return nil
}

// isMoving tells whether a call is to be made again in a moment, since some of
// its keys are on their way to another node. A key that does not exist is never
// found there, and the log of a leak counter mostly does not: so the call goes
// without the logs, and with them again if the script says that it has one.
func (k *nodes) isMoving(ctx context.Context, c *call, err error) bool {
	switch {
	case redis.HasErrorPrefix(err, "TRYAGAIN") && !c.bare && c.logs:
		c.repack(true)
		return ctx.Err() == nil
	case redis.HasErrorPrefix(err, "TRYAGAIN"):
	case c.bare && strings.Contains(err.Error(), needsLog):
		c.repack(false)
	default:
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(tryAgainAfter):
		return true
	}
}

// unserved is what a node says of a slot that nobody has. It serves its own.
const unserved = "CLUSTERDOWN Hash slot not served"

// judge decides what a failed call says about a node.
func (k *nodes) judge(ctx context.Context, n *node, c *call, err error, begin time.Time) {
	if redis.HasErrorPrefix(err, "TRYAGAIN") || errors.Is(err, context.Canceled) || errors.Is(err, errUnasked) {
		return
	}
	k.look() // it may be another's by now
	if redis.HasErrorPrefix(err, unserved) {
		return
	}
	late := timedOut(err)
	end, _ := ctx.Deadline()
	hurried := late && end.Sub(begin) < min(fairWait, k.budget)
	if !late && gone(err) || !hurried && n.breaker.failed(c.trip) {
		n.leave(err)
	}
}

// leave has n not asked until it is found again. Until then its calls are
// answered with what it was last found away with.
func (n *node) leave(err error) {
	err = fmt.Errorf("%w: %w", errAway, err)
	n.why.Store(&err)
	n.away.Store(true)
}
