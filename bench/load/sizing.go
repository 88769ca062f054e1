package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"

	"github.com/koalagate/koalagate/bench/report"
	"github.com/koalagate/koalagate/bench/resp"
	"github.com/koalagate/koalagate/bench/traffic"
	"github.com/koalagate/koalagate/internal/store/memory"
)

// sizing measures the resources that operators must provide.
func (r *run) sizing(ctx context.Context) error {
	r.Chapter("Sizing", "")
	return errors.Join(r.memoryOfIdentities(ctx), r.network(ctx), r.starts(ctx))
}

// network measures the bytes per decision between the gateway and a door.
func (r *run) network(ctx context.Context) error {
	const name = "Network of a decision"
	if !r.only.MatchString(name) {
		return nil
	}
	t := report.Table{Columns: []string{"door", "to the door", "from the door"}}
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
		if err := askOnce(w.counting(ctx), one.subject, one.traffic, r.identities); err != nil {
			return fmt.Errorf("%s: %w", one.door, err)
		}
		t.Rows = append(t.Rows, []string{
			one.door + ", " + one.traffic.Name, strconv.FormatInt(w.out.Load()/int64(r.identities), 10), strconv.FormatInt(w.in.Load()/int64(r.identities), 10),
		})
	}
	r.Add(report.Section{Name: name, Text: "Bytes on persistent connections, without TCP and IP.", Tables: []report.Table{t}})
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
	table := report.Table{Columns: []string{"rule", "Redis", "in process"}}
	for _, m := range memories {
		t := traffic.Kind{Name: m.what, Request: traffic.Many(m.name)}
		inRedis, err := memoryInRedis(ctx, r.redis, t, m.hits, r.identities)
		if err != nil {
			return fmt.Errorf("%s: %w", m.what, err)
		}
		here, err := memoryInProcess(ctx, t, m.hits, r.identities)
		if err != nil {
			return fmt.Errorf("%s: %w", m.what, err)
		}
		table.Rows = append(table.Rows, []string{m.what, fmt.Sprintf("%.0f", inRedis), fmt.Sprintf("%.0f", here)})
	}
	r.Add(report.Section{Name: name, Text: "Bytes, including the key and its share of the tables.", Tables: []report.Table{table}})
	return nil
}

// memoryInRedis returns the bytes per identity in Redis.
func memoryInRedis(ctx context.Context, i *instance, t traffic.Kind, hits, identities int) (float64, error) {
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
		if err := askOnce(ctx, i.rateLimit(), t, identities); err != nil {
			return 0, err
		}
	}
	after, err := resp.StateOf(ctx, i.redisAddress)
	return float64(after.Memory-before.Memory) / float64(identities), err
}

// memoryInProcess returns the bytes per identity in the in-process store.
func memoryInProcess(ctx context.Context, t traffic.Kind, hits, identities int) (float64, error) {
	m := memory.New(memory.Options{})
	defer m.Close()
	before := heap()
	for range hits {
		if err := askOnce(ctx, bare("in process", m, 0, ""), t, identities); err != nil {
			return 0, err
		}
	}
	after := heap()
	runtime.KeepAlive(m)
	return float64(after-before) / float64(identities), nil
}

// askOnce makes one call for each of the first identities.
func askOnce(ctx context.Context, s *subject, t traffic.Kind, identities int) error {
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
			for range identities / callers {
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

// heap returns the memory in use after garbage collections: pools are emptied by the second.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
