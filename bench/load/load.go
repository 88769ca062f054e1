package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// ask puts a caller's next question and tells whether it was refused. It is
// one caller's: never called twice at a time.
type ask func(ctx context.Context) (refused bool, err error)

// load is how callers ask.
type load struct {
	callers int
	// rate is that of all callers together, in calls a second: an open loop,
	// in which a call's time counts from the instant that it is due, so that a
	// slow answer makes those behind it late as well. 0 is the closed loop:
	// each caller asks as soon as it is answered.
	rate float64
}

// String is the load in words.
func (l load) String() string {
	switch {
	case l.rate > 0:
		return fmt.Sprintf("open loop, %.0f calls/s, %d callers", l.rate, l.callers)
	case l.callers == 1:
		return "one caller"
	}
	return fmt.Sprintf("closed loop, %d callers", l.callers)
}

// outcome is what came of a load.
type outcome struct {
	refused   uint64
	took      time.Duration
	latencies histogram // of all calls
}

// maxWait bounds one call: a service that hangs ends the measurement.
const maxWait = 10 * time.Second

// run has the callers ask for a time. A call that fails fails the whole: what
// is not answered must not look fast.
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
			return nil, err // most others say the same
		}
	}
	return whole, nil
}

// caller is one of many.
type caller struct {
	ask   ask
	out   *outcome
	until time.Time
}

// eager asks again as soon as it is answered.
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

// paced asks at its pace, and at once while it is late.
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
