package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/delay"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/redisconn"
)

const (
	// maxRedirects bounds how often a call is redirected. A moving slot takes
	// two redirects, one that has just moved again one more.
	maxRedirects = 8
	// tryAgainAfter is how long a call waits for keys that are moving.
	tryAgainAfter = 2 * time.Millisecond
)

// Send sends the call to the node that owns its slot, wherever the slot has moved
// meanwhile, and waits for its answer.
func (k *nodes) Send(ctx context.Context, c *redis.Call) (abandoned bool, err error) {
	n, err := k.owner(ctx, c.Slot)
	if err != nil {
		return false, err
	}
	c.Asking = false
	begin := time.Now()
	for redirects := 0; ; {
		if n.unreachable.Load() {
			return false, k.fault(n, *n.reason.Load())
		}
		if abandoned, err = n.batcher.Send(ctx, c); err == nil {
			n.breaker.Answered()
			return false, nil
		}
		var next *node
		if !abandoned {
			if k.waitForKeys(ctx, c, err) {
				continue
			}
			next = k.redirect(n, c, err)
			redirects++
		}
		if next == nil || redirects > maxRedirects {
			k.examine(ctx, n, c, err, begin)
			return abandoned, k.fault(n, err)
		}
		n = next
	}
}

// fault returns err as an error of n.
func (k *nodes) fault(n *node, err error) error {
	masters := k.masters()
	reachable := slices.ContainsFunc(masters, func(m *node) bool { return !m.unreachable.Load() })
	return &nodeError{addr: n.addr, err: err, all: masters != nil && !reachable}
}

// redirect returns the node that a call must go to after n has refused it; nil
// if err is no redirect.
func (k *nodes) redirect(n *node, c *redis.Call, err error) *node {
	var reply goredis.Error
	if !errors.As(err, &reply) {
		return nil
	}
	words := strings.Fields(reply.Error())
	if len(words) != 3 {
		return nil
	}
	switch words[0] {
	case "MOVED":
		k.requestRefresh() // other slots may have moved too
		owner := k.at(n.resolve(words[2]))
		k.owners[c.Slot].Store(owner)
		c.Asking = false
		return owner
	case "ASK":
		c.Asking = true
		return k.at(n.resolve(words[2]))
	}
	return nil
}

// waitForKeys reports whether a call must be sent again in a moment because some
// of its keys are moving to another node. The nodes reply TRYAGAIN until every
// named key has arrived. A key that does not exist never arrives; the log of a leak
// counter mostly does not exist. So the call is sent without the logs, and with
// them again if the script replies that a counter has one.
func (k *nodes) waitForKeys(ctx context.Context, c *redis.Call, err error) bool {
	switch moving := goredis.HasErrorPrefix(err, "TRYAGAIN"); {
	case moving && c.OmitLogs():
		return ctx.Err() == nil
	case moving:
	case redis.NeedsLog(err) && c.NameLogs():
	default:
		return false
	}
	return delay.Wait(ctx, tryAgainAfter)
}

// unservedSlot begins a node's error about a slot without an owner. The node
// still serves its own slots.
const unservedSlot = "CLUSTERDOWN Hash slot not served"

// examine decides whether a failed call makes its node unreachable.
func (k *nodes) examine(ctx context.Context, n *node, c *redis.Call, err error, begin time.Time) {
	if goredis.HasErrorPrefix(err, "TRYAGAIN") || errors.Is(err, context.Canceled) || errors.Is(err, redis.ErrAskingRefused) {
		return
	}
	k.requestRefresh() // another node may own the slot by now
	if goredis.HasErrorPrefix(err, unservedSlot) {
		return
	}
	if errors.Is(err, redisconn.ErrStarved) || errors.Is(err, redisconn.ErrQueueFull) || redisconn.LacksFiles(err) {
		return
	}
	late := redisconn.TimedOut(err)
	end, _ := ctx.Deadline()
	hurried := late && k.evaluator.Hurried(end.Sub(begin))
	if !late && redisconn.Unreachable(err) || !hurried && n.breaker.Failed(c.Trip) {
		n.markUnreachable(err)
	}
}

// markUnreachable makes the calls for n fail, with the last reason, until a check
// succeeds.
func (n *node) markUnreachable(err error) {
	err = fmt.Errorf("%w: %w", errUnreachable, err)
	n.reason.Store(&err)
	n.unreachable.Store(true)
}
