package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/koalagate/koalagate/bench/process"
	"github.com/koalagate/koalagate/bench/resp"
	"github.com/koalagate/koalagate/bench/stats"
	"github.com/koalagate/koalagate/bench/traffic"
)

// subject is a service or store under test, with its processes.
type subject struct {
	name         string
	service      process.ID
	tally        *tally // counts its instructions instead of its CPU time; nil for none
	redis        process.ID
	redisAddress string // "" without a Redis
	admin        string // where to read its allocations; "" to omit them
	net          bool   // its CPU is that of calls: without what it uses before the first one
	open         func(ctx context.Context, t traffic.Kind, callers int) ([]ask, func(), error)
}

// section compares subjects under one load.
type section struct {
	name     string
	promised bool // a goal is about its ratios, so that they get more rounds
	traffic  traffic.Kind
	load     load
	subjects []*subject // ratios are relative to the first
}

// sample is the result of one run of one subject.
type sample struct {
	rate                 float64 // calls per second
	p50, p90, p99, p999  float64 // µs
	service, redis, ours float64 // CPU µs per call, or 1,000 instructions; ours is used by the callers
	in, out              float64 // bytes on Redis's network per call
	scripts              float64 // script calls per call
	allocations          float64 // per call, 0 if omitted
}

// cpu returns the CPU time of the service and its Redis per call, in µs.
func (s *sample) cpu() float64 { return s.service + s.redis }

// figures contains all samples of one subject in one section.
type figures struct {
	subject  *subject
	samples  []sample
	memory   int64 // of the service, in bytes
	ofRedis  int64 // of its Redis, in bytes
	idle     idle
	inFlight *session
}

// idle is the part of the time in which a service and its Redis use a processor without
// calls.
type idle struct{ service, redis float64 }

// idleSpan is how long an idle subject is measured: timers of a second turn up in it often
// enough. Instructions vary less.
const (
	idleSpan         = 10 * time.Second
	idleInstructions = 3 * time.Second
)

// rest measures a subject without calls.
func (s *subject) rest(ctx context.Context, span time.Duration) (idle, error) {
	start := time.Now()
	before, err := s.usage(ctx)
	if err != nil {
		return idle{}, err
	}
	select {
	case <-ctx.Done():
		return idle{}, ctx.Err()
	case <-time.After(span):
	}
	after, err := s.usage(ctx)
	took := float64(time.Since(start))
	return idle{float64(after.service-before.service) / took, float64(after.redis-before.redis) / took}, err
}

// session contains the callers of a subject.
type session struct {
	asks []ask
	end  func()
}

// bounds contains the number and duration of runs.
type bounds struct {
	rounds int
	span   time.Duration // of one run
	warmUp time.Duration
}

// measure runs the subjects alternately, A B A B …, so that other load on the machine
// affects all of them.
func (s *section) measure(ctx context.Context, b bounds) ([]*figures, error) {
	all := make([]*figures, 0, len(s.subjects))
	defer func() {
		for _, f := range all {
			f.inFlight.end()
		}
	}()
	for _, subject := range s.subjects {
		asks, end, err := subject.open(ctx, s.traffic, s.load.callers)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", subject.name, err)
		}
		f := &figures{subject: subject, inFlight: &session{asks, end}}
		all = append(all, f)
		if subject.net {
			span := idleSpan
			if subject.tally != nil {
				span = idleInstructions
			}
			if f.idle, err = subject.rest(ctx, span); err != nil {
				return nil, fmt.Errorf("%s: %w", subject.name, err)
			}
		}
		if _, err := s.load.run(ctx, asks, b.warmUp); err != nil {
			return nil, fmt.Errorf("%s: %w", subject.name, err)
		}
	}
	for range b.rounds {
		for _, f := range all {
			got, err := s.once(ctx, f, b.span)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.subject.name, err)
			}
			f.samples = append(f.samples, got)
		}
	}
	for _, f := range all {
		var err error
		if f.memory, err = f.subject.service.Memory(); err != nil {
			return nil, err
		}
		if f.ofRedis, err = f.subject.redis.Memory(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// usage is the resources used by a subject's processes so far.
type usage struct {
	service, redis, ours time.Duration
	state                resp.State
	allocations          float64
}

func (s *subject) usage(ctx context.Context) (u usage, err error) {
	if s.tally != nil {
		u.service, err = s.tally.read(ctx)
	} else {
		u.service, err = s.service.CPU()
	}
	if err != nil {
		return u, err
	}
	if u.redis, err = s.redis.CPU(); err != nil {
		return u, err
	}
	if u.ours, err = process.ID(os.Getpid()).CPU(); err != nil {
		return u, err
	}
	u.state, err = resp.StateOf(ctx, s.redisAddress)
	return u, err
}

func (s *section) once(ctx context.Context, f *figures, span time.Duration) (sample, error) {
	allocated, err := f.subject.allocated(ctx)
	if err != nil {
		return sample{}, err
	}
	before, err := f.subject.usage(ctx)
	if err != nil {
		return sample{}, err
	}
	before.allocations = allocated
	got, err := s.load.run(ctx, f.inFlight.asks, span)
	if err != nil {
		return sample{}, err
	}
	after, err := f.subject.usage(ctx)
	if err != nil {
		return sample{}, err
	}
	if after.allocations, err = f.subject.allocated(ctx); err != nil {
		return sample{}, err
	}
	calls := float64(got.latencies.number)
	if calls == 0 {
		return sample{}, fmt.Errorf("no call in %v", span)
	}
	// Koala's API refuses in the body of a 200, which callers do not read. In callgrind calls
	// are so slow that counters admit some meanwhile.
	tolerance := 0.05
	if f.subject.tally != nil {
		tolerance = 0.2
	}
	if share := float64(got.refused) / calls; math.Abs(share-s.traffic.Refused) > tolerance {
		return sample{}, fmt.Errorf("%.0f %% of the calls were refused; want %.0f %%: the rules do not match the traffic",
			100*share, 100*s.traffic.Refused)
	}
	micro := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	return sample{
		rate: calls / got.took.Seconds(),
		p50:  micro(got.latencies.quantile(0.5)), p90: micro(got.latencies.quantile(0.9)),
		p99: micro(got.latencies.quantile(0.99)), p999: micro(got.latencies.quantile(0.999)),
		service: max(0, micro(after.service-before.service)-f.idle.service*micro(got.took)) / calls,
		redis:   max(0, micro(after.redis-before.redis)-f.idle.redis*micro(got.took)) / calls,
		ours:    micro(after.ours-before.ours) / calls,
		in:      float64(after.state.In-before.state.In) / calls,
		scripts: float64(after.state.Scripts()-before.state.Scripts()) / calls,
		out:     float64(after.state.Out-before.state.Out) / calls,

		allocations: (after.allocations - before.allocations) / calls,
	}, nil
}

// metric returns a value of a sample.
type metric func(*sample) float64

var (
	rate       metric = func(s *sample) float64 { return s.rate }
	p50        metric = func(s *sample) float64 { return s.p50 }
	p90        metric = func(s *sample) float64 { return s.p90 }
	p99        metric = func(s *sample) float64 { return s.p99 }
	p999       metric = func(s *sample) float64 { return s.p999 }
	serviceCPU metric = func(s *sample) float64 { return s.service }
	redisCPU   metric = func(s *sample) float64 { return s.redis }
	callerCPU  metric = func(s *sample) float64 { return s.ours }
	totalCPU   metric = (*sample).cpu
	scripts    metric = func(s *sample) float64 { return s.scripts }
	bytesIn    metric = func(s *sample) float64 { return s.in }
	bytesOut   metric = func(s *sample) float64 { return s.out }

	allocations metric = func(s *sample) float64 { return s.allocations }
)

// of returns a metric over all rounds.
func (f *figures) of(m metric) stats.Value { return stats.Of(f.list(m)) }

// over returns the ratio of a metric to the same metric of another subject, round by round.
func (f *figures) over(other *figures, m metric) stats.Value {
	return stats.Ratios(f.list(m), other.list(m))
}

// list returns a metric of each round.
func (f *figures) list(m metric) []float64 {
	list := make([]float64, len(f.samples))
	for i := range f.samples {
		list[i] = m(&f.samples[i])
	}
	return list
}
