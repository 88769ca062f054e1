package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/koalagate/koalagate/bench/process"
)

// sample is the result of one turn of all instances.
type sample struct {
	rate      float64 // decisions per second
	redis     float64 // CPU µs of all nodes per decision
	instances float64 // CPU µs of the instances per decision
	busy      float64 // CPU of the busiest node, as a share of one processor
	share     float64 // of the busiest node in the CPU of all nodes
}

func instancesCPU(s sample) float64 { return s.instances }

func redisCPU(s sample) float64 { return s.redis }

// measure has a number of instances carry out a turn several times, after a warm-up.
func (s *scene) measure(ctx context.Context, o *options, b *backend, size int, t turn) (samples []sample, err error) {
	var all []*instance
	defer func() {
		for _, i := range all {
			err = errors.Join(err, i.end())
		}
	}()
	for range size {
		i, err := start(ctx, b.url, s.rules)
		if err != nil {
			return nil, err
		}
		all = append(all, i)
	}
	warmUp := t
	warmUp.Span /= 2
	if _, err := b.once(all, &warmUp); err != nil {
		return nil, err
	}
	for range o.rounds {
		got, err := b.once(all, &t)
		if err != nil {
			return nil, err
		}
		samples = append(samples, got)
	}
	return samples, nil
}

// used returns the CPU time of processes so far.
func used(list []process.ID) (times []time.Duration, err error) {
	for _, p := range list {
		cpu, err := p.CPU()
		if err != nil {
			return nil, err
		}
		times = append(times, cpu)
	}
	return times, nil
}

// sum returns how much longer the second times are, in all, and the longest difference.
func sum(before, after []time.Duration) (total, most time.Duration) {
	for i := range before {
		total += after[i] - before[i]
		most = max(most, after[i]-before[i])
	}
	return total, most
}

// once has all instances carry out a turn at the same time.
func (b *backend) once(all []*instance, t *turn) (one sample, err error) {
	processes := slices.Clone(b.nodes)
	for _, i := range all {
		processes = append(processes, i.ID)
	}
	before, err := used(processes)
	if err != nil {
		return one, err
	}
	for _, i := range all {
		if err := i.orders.Encode(t); err != nil {
			return one, err
		}
	}
	decisions, took := 0.0, time.Duration(0)
	for _, i := range all {
		var d done
		if err := i.answers.Decode(&d); err != nil {
			return one, err
		}
		if d.Fault != "" {
			return one, errors.New(d.Fault)
		}
		decisions += float64(d.Decisions)
		took = max(took, d.Took)
	}
	after, err := used(processes)
	if err != nil {
		return one, err
	}
	micro := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	n := len(b.nodes)
	redis, busiest := sum(before[:n], after[:n])
	instances, _ := sum(before[n:], after[n:])
	return sample{
		rate: decisions / took.Seconds(), redis: micro(redis) / decisions, instances: micro(instances) / decisions,
		busy: busiest.Seconds() / took.Seconds(), share: busiest.Seconds() / max(redis.Seconds(), 1e-9),
	}, nil
}
