package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// maxFlying is the number of batches under way at a time: one that Redis
	// works on, and one on its way there.
	maxFlying = 2
	// maxBatch and maxBatchRules bound what Redis does without a break for
	// anybody else: about a millisecond.
	maxBatch      = 64
	maxBatchRules = 256
	// maxWaiting bounds the calls that wait for a batch. At a hundred
	// thousand a second these are done in the time of a budget.
	maxWaiting = 10_000
)

var errWaiting = errors.New("redis: too many calls wait for it")

// batches sends calls in pipelines: what has gathered goes when a batch
// returns. There is no timer, so a lone call goes at once, and the more calls
// there are the fewer round trips each of them costs. Each call is still a
// script call of its own, and fails alone.
type batches struct {
	client redis.UniversalClient
	script *redis.Script
	budget time.Duration
	ctx    context.Context // ends with close
	cancel context.CancelFunc

	mu      sync.Mutex
	waiting []*call
	flying  int
	closed  bool
	running sync.WaitGroup
}

func newBatches(client redis.UniversalClient, script *redis.Script, budget time.Duration) *batches {
	b := &batches{client: client, script: script, budget: budget}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// close ends the batches under way, and waits for them.
func (b *batches) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.cancel()
	b.running.Wait()
}

// The states of a call on its way.
const (
	callWaits  = iota // may still be withdrawn
	callIsSent        // may have been counted
	callIsGone        // its caller left before it was sent: nobody will send it
)

// delivery is what a call carries on its way through a batch.
type delivery struct {
	args  []any
	state atomic.Int32
	done  chan struct{} // has room for one: a batch never waits for a caller
	again bool          // it is made with the script's text
	text  string
	err   error
}

// run has the script carry out c, and returns its reply. Where the caller's
// time ends first, lost tells that a batch may still hold c: it must not be
// used again.
func (b *batches) run(ctx context.Context, c *call) (text string, lost bool, err error) {
	if c.done == nil {
		c.done = make(chan struct{}, 1)
	}
	c.again = false
	c.state.Store(callWaits)
	alone, err := b.add(c) //nolint:contextcheck // a batch is many callers', and outlives each
	switch {
	case err != nil:
		return "", false, err
	case alone:
		b.exchange(ctx, []*call{c})
		b.landed() //nolint:contextcheck // as above
		<-c.done
		return c.text, false, c.err
	}
	select {
	case <-c.done:
		return c.text, false, c.err
	case <-ctx.Done():
		if c.state.CompareAndSwap(callWaits, callIsGone) {
			return "", true, fmt.Errorf("the call was not sent in time: %w", ctx.Err())
		}
		return "", true, ctx.Err()
	}
}

// add puts c behind the calls that wait, and sees to it that they are sent. A
// call that finds nobody before it is alone: its caller sends it himself, which
// saves the way to another goroutine and back.
func (b *batches) add(c *call) (alone bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return false, redis.ErrClosed
	case len(b.waiting) >= maxWaiting:
		return false, errWaiting
	case b.flying == 0:
		b.flying++
		b.running.Add(1)
		return true, nil
	}
	b.waiting = append(b.waiting, c)
	if b.flying < maxFlying {
		b.flying++
		b.running.Add(1)
		go b.send()
	}
	return false, nil
}

// landed ends a lone call, and sends what has gathered meanwhile.
func (b *batches) landed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) > 0 {
		go b.send()
		return
	}
	b.flying--
	b.running.Done()
}

// send sends batches until no call waits.
func (b *batches) send() {
	defer b.running.Done()
	var batch []*call
	for {
		if batch = b.next(batch[:0]); len(batch) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(b.ctx, b.budget)
		b.exchange(ctx, batch)
		cancel()
		clear(batch)
	}
}

// next takes the calls that go next, in the order in which they came. Without
// any it counts the sender out, in one step with the look: a call that comes
// then starts a sender of its own.
func (b *batches) next(batch []*call) []*call {
	b.mu.Lock()
	defer b.mu.Unlock()
	rules, taken := 0, 0
	for _, c := range b.waiting {
		if n := c.rules(); len(batch) > 0 && (len(batch) == maxBatch || rules+n > maxBatchRules) {
			break
		} else if c.state.CompareAndSwap(callWaits, callIsSent) {
			batch, rules = append(batch, c), rules+n
		}
		taken++
	}
	left := copy(b.waiting, b.waiting[taken:])
	clear(b.waiting[left:])
	b.waiting = b.waiting[:left]
	if len(batch) == 0 {
		b.flying--
	}
	return batch
}

// exchange carries out a batch. Where Redis does not know the script, nothing
// was executed: these calls are made once more with the script's text, which
// Redis then knows.
func (b *batches) exchange(ctx context.Context, batch []*call) {
	unknown := b.pipe(ctx, batch, func(p redis.Scripter, c *call) *redis.Cmd {
		return p.EvalSha(ctx, b.script.Hash(), c.keys, c.args...)
	})
	if len(unknown) > 0 {
		b.pipe(ctx, unknown, func(p redis.Scripter, c *call) *redis.Cmd {
			return b.script.Eval(ctx, p, c.keys, c.args...)
		})
	}
}

// pipe makes the calls in one round trip and delivers their replies, but to
// those that failed for want of the script, which it returns.
func (b *batches) pipe(ctx context.Context, batch []*call, ask func(redis.Scripter, *call) *redis.Cmd) (unknown []*call) {
	commands := [maxBatch]*redis.Cmd{}
	if len(batch) == 1 {
		commands[0] = ask(b.client, batch[0]) // a pipeline would only cost
	} else {
		p := b.client.Pipeline()
		for i, c := range batch {
			commands[i] = ask(p, c)
		}
		// Each command has its own error, and the first of them is returned
		// here once more.
		_, _ = p.Exec(ctx)
	}
	for i, c := range batch {
		text, err := commands[i].Text()
		if redis.HasErrorPrefix(err, "NOSCRIPT") && !c.again {
			c.again = true
			unknown = append(unknown, c)
			continue
		}
		c.text, c.err = text, err
		c.done <- struct{}{}
	}
	return unknown
}
