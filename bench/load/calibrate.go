package main

import (
	"bytes"
	"context"
	"time"

	"github.com/koalagate/koalagate/bench/process"
	"github.com/koalagate/koalagate/bench/resp"
)

// calibrate measures the CPU time of a plain INCR, 64 in a pipeline, on this machine, which
// shows how fast it is.
func calibrate(ctx context.Context, address string, redis process.ID, span time.Duration) (time.Duration, error) {
	c, err := resp.Dial(ctx, address)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	const depth = 64
	pipeline := bytes.Repeat(resp.Command("INCR", "calibrate"), depth)
	before, err := redis.CPU()
	if err != nil {
		return 0, err
	}
	calls := 0
	for end := time.Now().Add(span); time.Now().Before(end); calls += depth {
		if err := c.Write(pipeline); err != nil {
			return 0, err
		}
		for range depth {
			if _, err := c.Read(); err != nil {
				return 0, err
			}
		}
	}
	after, err := redis.CPU()
	return (after - before) / time.Duration(calls), err
}
