package store

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// askNext is how long a node has to answer before the next one is asked as
// well: longer than most take, and short beside a budget. So one node that
// hangs delays an answer that others can give by this and no more, and where
// all is well one node alone is asked.
const askNext = 5 * time.Millisecond

// askFirst has f ask the nodes in their order, each within a budget of its own,
// and returns the first answer. The next one is asked when one has failed, or
// has taken askNext. Without an answer the error is that of all of them.
func askFirst[T any](ctx context.Context, k *nodes, list []*node, f func(context.Context, *node) (T, error)) (T, error) {
	type reply struct {
		answer T
		err    error
	}
	var none T
	if len(list) == 0 {
		return none, redis.ErrClosed
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	replies := make(chan reply, len(list)) // nobody waits to be heard
	next := time.NewTimer(0)
	defer next.Stop()
	var faults nodeFaults
	for asked := 0; len(faults) < len(list); {
		var due <-chan time.Time
		if asked < len(list) {
			due = next.C
		}
		select {
		case <-ctx.Done():
			return none, ctx.Err()
		case <-due:
			n := list[asked]
			asked++
			if !k.spawn(&k.running, func() {
				ctx, cancel := context.WithTimeout(ctx, k.budget)
				defer cancel()
				answer, err := f(ctx, n)
				replies <- reply{answer, err}
			}) {
				return none, redis.ErrClosed
			}
			next.Reset(askNext)
		case r := <-replies:
			if r.err == nil {
				return r.answer, nil
			}
			faults = append(faults, r.err)
			next.Reset(0)
		}
	}
	return none, faults
}

// eachOwning has f look at each node that had slots at the last look, and joins
// what they met with.
func (k *nodes) eachOwning(f func(*node) error) error {
	var faults nodeFaults
	for _, n := range *k.owning.Load() {
		if err := f(n); err != nil {
			faults = append(faults, &nodeError{addr: n.addr, err: err})
		}
	}
	if faults == nil {
		return nil
	}
	return faults
}

// nodeFaults are what several nodes have met with.
type nodeFaults []error

// maxFaultsTold keeps the line of a large Cluster readable.
const maxFaultsTold = 3

func (f nodeFaults) Error() string {
	var told []string
	for _, err := range f[:min(len(f), maxFaultsTold)] {
		told = append(told, err.Error())
	}
	if more := len(f) - maxFaultsTold; more > 0 {
		told = append(told, "and "+strconv.Itoa(more)+" nodes more")
	}
	return strings.Join(told, "; ")
}

// Unwrap are the faults.
func (f nodeFaults) Unwrap() []error { return f }
