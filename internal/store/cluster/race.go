package cluster

import (
	"context"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// nextAfter is how long a node has to answer before the next one is called too:
// longer than most answers take, and short compared with a budget. So a node
// that hangs delays an answer that others can give only by this, and if all is
// well only one node is called.
const nextAfter = 5 * time.Millisecond

// firstAnswer calls f with the nodes in order, each within a budget of its own,
// and returns the first answer. It calls f with the next node when a call failed
// or took nextAfter. Without an answer it returns the errors of all of them.
func firstAnswer[T any](ctx context.Context, k *nodes, list []*node, f func(context.Context, *node) (T, error)) (T, error) {
	type result struct {
		answer T
		err    error
	}
	var none T
	if len(list) == 0 {
		return none, goredis.ErrClosed
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan result, len(list)) // no sender blocks
	next := time.NewTimer(0)
	defer next.Stop()
	var faults nodeErrors
	for called := 0; len(faults) < len(list); {
		var due <-chan time.Time
		if called < len(list) {
			due = next.C
		}
		select {
		case <-ctx.Done():
			return none, ctx.Err()
		case <-due:
			n := list[called]
			called++
			if !k.spawn(&k.running, func() {
				ctx, cancel := context.WithTimeout(ctx, k.evaluator.Budget())
				defer cancel()
				answer, err := f(ctx, n)
				results <- result{answer, err}
			}) {
				return none, goredis.ErrClosed
			}
			next.Reset(nextAfter)
		case r := <-results:
			if r.err == nil {
				return r.answer, nil
			}
			faults = append(faults, r.err)
			next.Reset(0)
		}
	}
	return none, faults
}

// eachOwner calls f with each node that owned slots at the last refresh, and
// joins the errors.
func (k *nodes) eachOwner(f func(*node) error) error {
	var faults nodeErrors
	for _, n := range k.masters() {
		if err := f(n); err != nil {
			faults = append(faults, &nodeError{addr: n.addr, err: err})
		}
	}
	if faults == nil {
		return nil
	}
	return faults
}
