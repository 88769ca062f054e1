package main

import (
	"context"
	"fmt"

	"github.com/koalagate/koalagate/bench/stats"
	"github.com/koalagate/koalagate/bench/traffic"
)

// trialSection begins the names of the sections about trials; that on Redis ends with
// onRedis.
const (
	trialSection = "A running trial: "
	onRedis      = "on Redis"
	trialRate    = 2_000 // calls per second
)

// withTrial returns the name of an instance that tries the same rules.
func withTrial(name string) string { return name + ", with a trial" }

// trials measures what a running trial costs: the latency of callers at an equal rate, and
// the CPU of a call.
func (r *run) trials(ctx context.Context) error {
	r.print("\n## A running trial of the same rules\n")
	for _, place := range []string{"in process", onRedis} {
		redis := place == onRedis
		if !r.only.MatchString(trialSection + place) {
			continue
		}
		base := inProcess
		if redis {
			base = withRedis
		}
		// Two new instances: an older one would have more memory to manage.
		off, err := r.scene.koalagate(base, redis)
		if err != nil {
			return err
		}
		on, err := r.scene.koalagate(withTrial(base), redis, "KOALAGATE_TRIAL="+r.scene.rules)
		if err != nil {
			return err
		}
		err = r.section(ctx, &section{trialSection + place, traffic.Plain, load{callers: 256, rate: trialRate}, []*subject{off.rateLimit(), on.rateLimit()}})
		if err != nil {
			return fmt.Errorf("%s: %w", trialSection+place, err)
		}
	}
	return nil
}

// goalsOfTrials returns the goals of a running trial: no caller waits for it.
func (r *run) goalsOfTrials() []goal {
	of := func(place, name string, m metric) *stats.Value {
		section := trialSection + place
		return ratio(r.figures(section, withTrial(name)), r.figures(section, name), m)
	}
	return []goal{
		{what: "a trial in process, p99 of callers relative to none", got: of("in process", inProcess, p99), must: 1.1, more: 1.05, atMost: true},
		{what: "… CPU of a call", got: of("in process", inProcess, totalCPU)},
		{what: "a trial on Redis, p99 of callers relative to none", got: of(onRedis, withRedis, p99), must: 1.1, more: 1.05, atMost: true},
		{what: "… CPU of a call", got: of(onRedis, withRedis, totalCPU)},
	}
}
