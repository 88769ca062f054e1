package main

import (
	"context"
	"fmt"

	"github.com/koalagate/koalagate/bench/traffic"
)

// trialSection begins the names of the sections about trials, which end with their places.
const (
	trialSection   = "A running trial: "
	inProcessPlace = "in process"
	onRedis        = "on Redis"
	trialRate      = 2_000 // calls per second
)

// withTrial returns the name of an instance that tries the same rules.
func withTrial(name string) string { return name + ", with a trial" }

// trials measures what a running trial costs: the latency of callers at an equal rate, and
// the CPU of a call.
func (r *run) trials(ctx context.Context) error {
	r.Chapter("A running trial of the same rules", "")
	for _, place := range []string{inProcessPlace, onRedis} {
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
		err = r.section(ctx, &section{name: trialSection + place, promised: true, traffic: traffic.Plain, load: load{callers: 256, rate: trialRate}, subjects: []*subject{off.rateLimit(), on.rateLimit()}})
		if err != nil {
			return fmt.Errorf("%s: %w", trialSection+place, err)
		}
	}
	return nil
}

// comparedTrials adds what callers notice of a running trial: none waits for it.
func (r *run) comparedTrials() {
	for _, one := range []struct{ place, name string }{{inProcessPlace, inProcess}, {onRedis, withRedis}} {
		section := trialSection + one.place
		on, off := r.figures(section, withTrial(one.name)), r.figures(section, one.name)
		r.Figure("a trial "+one.place+", p99 of callers relative to none", ratio(on, off, p99))
		r.Figure("a trial "+one.place+", CPU of a call relative to none", ratio(on, off, totalCPU))
	}
}
