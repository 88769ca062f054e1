package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// ask makes a caller's next call and reports whether it was refused. It belongs to one
// caller and is never called concurrently.
type ask func(ctx context.Context) (refused bool, err error)

// load is a pattern of calls.
type load struct {
	callers int
	// rate is the total rate of all callers, in calls per second. It makes an
	// open loop, in which a call's latency starts when it is due, so that a
	// slow answer delays those behind it. 0 makes a closed loop: each caller
	// makes the next call as soon as it has an answer.
	rate float64
}

// String returns the load as text.
func (l load) String() string {
	switch {
	case l.rate > 0:
		return fmt.Sprintf("open loop, %.0f calls/s, %d callers", l.rate, l.callers)
	case l.callers == 1:
		return "a single caller"
	}
	return fmt.Sprintf("closed loop, %d callers", l.callers)
}

// outcome is the result of a load.
type outcome struct {
	refused   uint64
	took      time.Duration
	latencies histogram // of all calls
}

// maxWait is the maximum time of a call: a hanging service ends the measurement.
const maxWait = 10 * time.Second

// run makes calls for the given time. A failed call fails the whole run, because
// unanswered calls must not look fast.
func (l load) run(ctx context.Context, asks []ask, span time.Duration) (*outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, span+maxWait)
	defer cancel()
	parts, failed := make([]outcome, len(asks)), make([]error, len(asks))
	var running sync.WaitGroup
	start := time.Now()
	for i := range asks {
		running.Go(func() {
			c := caller{ask: asks[i], out: &parts[i], until: start.Add(span)}
			if l.rate > 0 {
				step := time.Duration(float64(time.Second) / l.rate)
				failed[i] = c.paced(ctx, start.Add(time.Duration(i)*step), step*time.Duration(len(asks)))
			} else {
				failed[i] = c.eager(ctx)
			}
		})
	}
	running.Wait()
	whole := &outcome{took: time.Since(start)}
	for i := range parts {
		whole.refused += parts[i].refused
		whole.latencies.merge(&parts[i].latencies)
	}
	for _, err := range failed {
		if err != nil {
			return nil, err // the other errors are usually the same
		}
	}
	return whole, nil
}

// caller is one of the concurrent callers.
type caller struct {
	ask   ask
	out   *outcome
	until time.Time
}

// eager makes the next call as soon as it has an answer.
func (c *caller) eager(ctx context.Context) error {
	for begin := time.Now(); begin.Before(c.until); {
		if err := c.once(ctx); err != nil {
			return err
		}
		end := time.Now()
		c.out.latencies.add(end.Sub(begin))
		begin = end
	}
	return nil
}

// paced makes calls at a fixed pace, and at once while it is late.
func (c *caller) paced(ctx context.Context, due time.Time, pace time.Duration) error {
	for ; due.Before(c.until); due = due.Add(pace) {
		time.Sleep(time.Until(due)) //nolint:forbidigo // the pace of a measurement
		if err := c.once(ctx); err != nil {
			return err
		}
		c.out.latencies.add(time.Since(due))
	}
	return nil
}

func (c *caller) once(ctx context.Context) error {
	refused, err := c.ask(ctx)
	if refused {
		c.out.refused++
	}
	return err
}
