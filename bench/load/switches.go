package main

import (
	"context"
	"fmt"

	"github.com/koalagate/koalagate/bench/traffic"
)

// optimization is a setting that makes the service faster, and the load that shows it.
type optimization struct {
	name    string
	off     string // `KEY=VALUE` of the environment, which switches it off
	traffic traffic.Kind
	load    load
	redis   bool // it applies to the service with Redis
}

// optimizations lists all that can be switched off.
var optimizations = []optimization{
	{name: "stream workers", off: "KOALAGATE_GRPC_STREAM_WORKERS=0", traffic: traffic.Plain, load: load{callers: manyCallers}},
	{name: "garbage headroom", off: "KOALAGATE_GC_HEADROOM=0", traffic: traffic.Plain, load: load{callers: manyCallers}},
	{name: "one script call for many callers", off: "KOALAGATE_REDIS_BATCHING=pipeline", traffic: traffic.Four, load: load{callers: manyCallers}, redis: true},
	{name: "batches", off: batchingOff, traffic: traffic.Four, load: load{callers: manyCallers}, redis: true},
	{name: "batches, a single caller", off: batchingOff, traffic: traffic.Plain, load: load{callers: 1}, redis: true},
	{name: "remembered refusals", off: "KOALAGATE_REDIS_REFUSALS=0", traffic: traffic.Attack, load: load{callers: manyCallers}, redis: true},
}

// batchingOff switches batching off.
const batchingOff = "KOALAGATE_REDIS_BATCHING=off"

const optimizationSection = "Without "

// optimizations measures each of them separately: the service with its default settings,
// and with this one switched off.
func (r *run) optimizations(ctx context.Context) error {
	r.Chapter("Effect of each optimization", "")
	for _, o := range optimizations {
		name := optimizationSection + o.name
		if !r.only.MatchString(name) {
			continue
		}
		base := inProcess
		if o.redis {
			base = withRedis
		}
		// Use two new instances: an older one would have more memory to manage.
		on, err := r.scene.koalagate(base, o.redis)
		if err != nil {
			return err
		}
		off, err := r.scene.koalagate(o.off, o.redis, o.off)
		if err != nil {
			return err
		}
		err = r.section(ctx, &section{name: name, promised: name == batchingSection, traffic: o.traffic, load: o.load, subjects: []*subject{on.rateLimit(), off.rateLimit()}})
		if err != nil {
			return fmt.Errorf("%s: %w", o.off, err)
		}
	}
	return nil
}
