package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/koalagate/koalagate/bench/resp"
	"github.com/koalagate/koalagate/bench/traffic"
	"github.com/koalagate/koalagate/internal/store/memory"
)

// sizing measures the resources that operators must provide.
func (r *run) sizing(ctx context.Context) error {
	r.print("\n## Sizing\n")
	return errors.Join(r.memoryOfIdentities(ctx), r.network(ctx))
}

// network measures the bytes per decision between the gateway and a door.
func (r *run) network(ctx context.Context) error {
	const name = "Network of a decision"
	if !r.only.MatchString(name) {
		return nil
	}
	r.print("\n### %s\n\nBytes on persistent connections, without TCP and IP.\n\n| door | traffic | to the door | from the door |\n| --- | --- | --- | --- |\n", name)
	for _, one := range []struct {
		door    string
		subject *subject
		traffic traffic.Kind
	}{
		{"rate limit service", r.memory.rateLimit(), traffic.Plain},
		{"rate limit service", r.memory.rateLimit(), traffic.Four},
		{"rate limit service", r.memory.rateLimit(), traffic.Attack},
		{"ext_authz", r.memory.authorization(), traffic.Plain},
		{"auth_request", r.memory.web(authRequest), traffic.Plain},
		{"Koala's API", r.memory.web(koalaBrowse), traffic.Plain},
	} {
		var w wire
		if err := askOnce(w.counting(ctx), one.subject, one.traffic); err != nil {
			return fmt.Errorf("%s: %w", one.door, err)
		}
		r.print("| %s | %s | %d | %d |\n", one.door, one.traffic.Name, w.out.Load()/traffic.Identities, w.in.Load()/traffic.Identities)
	}
	return nil
}

// memories lists the rules whose memory is measured, by the names of limits, each after
// this number of hits.
var memories = []struct {
	what, name string
	hits       int
}{
	{"count", "size-count", 1},
	{"daily count", "size-day", 1},
	{"base", "size-base", 1},
	{"token", "size-token", 1},
	{"leak", "size-leak", 1},
	{"leak, 10 hits in its window", "size-leak", 10},
	{"count, daily count, base and leak on one subject", "multi", 1},
}

// memoryOfIdentities measures the memory per identity by method.
func (r *run) memoryOfIdentities(ctx context.Context) error {
	const name = "Memory of an identity"
	if !r.only.MatchString(name) {
		return nil
	}
	r.print("\n### %s\n\nIncluding the key and its share of the tables.\n\n| rule | Redis, bytes | in process, bytes |\n| --- | --- | --- |\n", name)
	for _, m := range memories {
		t := traffic.Kind{Name: m.what, Request: traffic.Many(m.name)}
		inRedis, err := memoryInRedis(ctx, r.redis, t, m.hits)
		if err != nil {
			return fmt.Errorf("%s: %w", m.what, err)
		}
		here, err := memoryInProcess(ctx, t, m.hits)
		if err != nil {
			return fmt.Errorf("%s: %w", m.what, err)
		}
		r.print("| %s | %.0f | %.0f |\n", m.what, inRedis, here)
	}
	return nil
}

// memoryInRedis returns the bytes per identity in Redis.
func memoryInRedis(ctx context.Context, i *instance, t traffic.Kind, hits int) (float64, error) {
	// Keys of other sections could expire during the measurement.
	c, err := resp.Dial(ctx, i.redisAddress)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if reply, err := c.Do("FLUSHALL"); err != nil || reply != "+OK" {
		return 0, fmt.Errorf("redis answered FLUSHALL with %q (%w)", reply, err)
	}
	before, err := resp.StateOf(ctx, i.redisAddress)
	if err != nil {
		return 0, err
	}
	for range hits {
		if err := askOnce(ctx, i.rateLimit(), t); err != nil {
			return 0, err
		}
	}
	after, err := resp.StateOf(ctx, i.redisAddress)
	return float64(after.Memory-before.Memory) / traffic.Identities, err
}

// memoryInProcess returns the bytes per identity in the in-process store.
func memoryInProcess(ctx context.Context, t traffic.Kind, hits int) (float64, error) {
	m := memory.New(memory.Options{})
	defer m.Close()
	before := heap()
	for range hits {
		if err := askOnce(ctx, bare("in process", m, 0, ""), t); err != nil {
			return 0, err
		}
	}
	after := heap()
	runtime.KeepAlive(m)
	return float64(after-before) / traffic.Identities, nil
}

// askOnce makes one call for every identity.
func askOnce(ctx context.Context, s *subject, t traffic.Kind) error {
	const callers = 50 // of which the identities are a multiple
	asks, end, err := s.open(ctx, t, callers)
	if err != nil {
		return err
	}
	defer end()
	failed := make([]error, callers)
	var running sync.WaitGroup
	for i := range asks {
		running.Go(func() {
			for range traffic.Identities / callers {
				if _, err := asks[i](ctx); err != nil {
					failed[i] = err
					return
				}
			}
		})
	}
	running.Wait()
	return errors.Join(failed...)
}

// heap returns the memory in use after a garbage collection.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
