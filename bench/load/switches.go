package main

import (
	"context"
	"fmt"
)

// optimisation is a setting that makes the service faster, and what shows it.
type optimisation struct {
	name    string
	off     string // `KEY=VALUE` of the environment, which switches it off
	traffic traffic
	load    load
	redis   bool // it concerns the service with Redis
}

// optimisations are all that can be switched.
var optimisations = []optimisation{
	{name: "stream workers", off: "KOALAGATE_GRPC_STREAM_WORKERS=0", traffic: plain, load: load{callers: manyCallers}},
	{name: "headroom for garbage", off: "KOALAGATE_GC_HEADROOM=0", traffic: plain, load: load{callers: manyCallers}},
	{name: "one script call for many callers", off: "KOALAGATE_REDIS_BATCHING=pipeline", traffic: four, load: load{callers: manyCallers}, redis: true},
	{name: "batches at all", off: batchingOff, traffic: four, load: load{callers: manyCallers}, redis: true},
	{name: "batches, one lone caller", off: batchingOff, traffic: plain, load: load{callers: 1}, redis: true},
	{name: "the short way of counts", off: "KOALAGATE_REDIS_COUNT_PATH=false", traffic: four, load: load{callers: manyCallers}, redis: true},
	{name: "refusals kept in process", off: "KOALAGATE_REDIS_REFUSALS=0", traffic: attack, load: load{callers: manyCallers}, redis: true},
}

// batchingOff switches batching off.
const batchingOff = "KOALAGATE_REDIS_BATCHING=off"

const optimisationSection = "Without "

// optimisations measures each of them alone: the service as it is, and with
// this one switched off.
func (r *run) optimisations(ctx context.Context) error {
	r.print("\n## What each optimisation gives\n")
	for _, o := range optimisations {
		name := optimisationSection + o.name
		if !r.only.MatchString(name) {
			continue
		}
		base := inProcess
		if o.redis {
			base = withRedis
		}
		// Two new instances: one that has counted before has more memory to look
		// after.
		on, err := r.scene.koalagate(base, o.redis)
		if err != nil {
			return err
		}
		off, err := r.scene.koalagate(o.off, o.redis, o.off)
		if err != nil {
			return err
		}
		err = r.section(ctx, &section{name, o.traffic, o.load, []*subject{on.rateLimit(), off.rateLimit()}})
		if err != nil {
			return fmt.Errorf("%s: %w", o.off, err)
		}
	}
	return nil
}
