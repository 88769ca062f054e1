package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/koalagate/koalagate/bench/resp"
	"github.com/koalagate/koalagate/bench/stats"
	"github.com/koalagate/koalagate/bench/traffic"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/remote"
)

// The names of subjects that goals refer to.
const (
	inProcess   = "koalagate, in process"
	withRedis   = "koalagate, Redis"
	bareRedis   = "Redis" // the store without a service
	constantly  = "constant answer"
	sameAnswer  = "constant answer with the same headers"
	envoyPeer   = "envoyproxy/ratelimit"
	asPeer      = "koalagate as ratelimit, Redis"
	manyCallers = 64
)

// run is one run of all sections.
type run struct {
	*results
	scene    *scene
	only     *regexp.Regexp
	promised bounds // of sections with promises
	others   bounds
	// base instances, with default settings.
	constant, same, memory, redis, peer *instance
	// asPeer is koalagate in the place of envoyproxy/ratelimit, with the same limits.
	asPeer *instance
	incrs  []float64
	// identities of which the memory is measured, and entries of a long word list.
	identities, entries int
}

// all measures everything.
func (o *options) all(ctx context.Context, s *scene, only *regexp.Regexp) error {
	r := &run{results: newResults(o.report.Begin()), scene: s, only: only, promised: o.bounds, others: o.bounds}
	r.others.rounds = min(r.others.rounds, othersRounds)
	r.identities, r.entries = traffic.Identities/2, 10_000_000
	if o.report.Short {
		r.identities, r.entries = traffic.Identities/4, 100_000
	}
	if err := r.open(o.ratelimit); err != nil {
		return err
	}
	// What needs the most of the surroundings comes first: a fault is then found early.
	beside := func(ctx context.Context) error { return r.beside(ctx, o.before) }
	for _, part := range []func(context.Context) error{r.calibrate, beside, r.rateLimit, r.doors, r.stores, r.optimizations, r.trials, r.receipts, r.queue, r.quotas, r.sizing} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	r.compared()
	incr := stats.Of(r.incrs)
	r.FigureIn(" µs", "a plain INCR, 64 in a pipeline, CPU of Redis", &incr)
	state, err := resp.StateOf(ctx, r.redis.redisAddress)
	if err != nil {
		return err
	}
	r.Programs = []string{"Redis " + state.Version}
	return o.report.End(r.Part)
}

// open starts the instances that most sections need.
func (r *run) open(peer string) (err error) {
	if r.constant, err = r.scene.constant(constantly, ""); err != nil {
		return err
	}
	if r.memory, err = r.scene.koalagate(inProcess, false); err != nil {
		return err
	}
	if r.redis, err = r.scene.koalagate(withRedis, true); err != nil {
		return err
	}
	if r.same, err = r.scene.constant(sameAnswer, "http://"+r.memory.http+"/v1/auth-request?uid=4711"); err != nil {
		return err
	}
	if r.asPeer, err = r.scene.asRateLimit(asPeer); err != nil {
		return err
	}
	if peer != "" {
		if r.peer, err = r.scene.envoyRateLimit(peer); err != nil {
			return err
		}
	}
	return nil
}

// section measures one section, if it is selected.
func (r *run) section(ctx context.Context, s *section) error {
	if !r.only.MatchString(s.name) {
		return nil
	}
	// Calibrate for each section, because other load changes the cost of a call.
	if err := r.calibrate(ctx); err != nil {
		return err
	}
	b := r.others
	if s.promised {
		b = r.promised
	}
	all, err := s.measure(ctx, b)
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	r.add(s, all)
	return nil
}

func (r *run) calibrate(ctx context.Context) error {
	incr, err := calibrate(ctx, r.redis.redisAddress, r.redis.redis, r.promised.warmUp/2)
	if err != nil {
		return fmt.Errorf("calibrating with INCR: %w", err)
	}
	r.incrs = append(r.incrs, 1e6*incr.Seconds())
	return nil
}

// rateLimits returns the rate limit services that support this traffic.
func (r *run) rateLimits(t traffic.Kind) []*subject {
	list := []*subject{r.memory.rateLimit(), r.redis.rateLimit()}
	if t.Refused == 0 { // the constant answer never refuses
		list = append([]*subject{r.constant.rateLimit()}, list...)
	}
	if t.Name == traffic.Four.Name {
		list = append(list, r.asPeer.rateLimit())
	}
	if r.peer != nil && t.SuitsPeers() {
		list = append(list, r.peer.rateLimit())
	}
	return list
}

// The names of sections that goals refer to.
const (
	rateLimitSection = "Rate limit service: "
	equalRate        = "Rate limit service, 4000 calls per second: "
	beforeAttack     = "Rate limit service, 800 regular calls per second"
	onTop            = "Rate limit service, plus 7200 calls per second over the limit"
	storesSection    = "The stores: "
	loneSection      = "Rate limit service: a single caller"
	batchingSection  = "Without batches, a single caller"

	authorizationSection = "ext_authz over gRPC"
	authorizationFour    = authorizationSection + ", four limits of one identity"
	koalaSection         = "Koala's API over HTTP"

	authRequestSection = "nginx's auth_request over HTTP"
	authRequestAlone   = authRequestSection + ", a single caller"
	authRequestTwo     = authRequestSection + ", two limits"
	authRequestTwoFull = authRequestSection + ", two limits, refused"
)

// isPromised reports whether goals or pages refer to traffic at the rate limit service.
func isPromised(t traffic.Kind) bool {
	return slices.Contains([]string{traffic.OneCounter.Name, traffic.Leased.Name, traffic.Plain.Name, traffic.Four.Name, traffic.FourOfOneValue.Name, traffic.FourOfOne.Name}, t.Name)
}

func (r *run) rateLimit(ctx context.Context) error {
	r.Chapter("The rate limit service", "")
	var failed []error
	for _, t := range kinds {
		failed = append(failed, r.section(ctx, &section{
			name: rateLimitSection + t.Name, promised: isPromised(t), traffic: t, load: load{callers: manyCallers}, subjects: r.rateLimits(t),
		}))
	}
	failed = append(failed, r.section(ctx, &section{
		name: loneSection, traffic: traffic.Plain, load: load{callers: 1}, subjects: r.rateLimits(traffic.Plain),
	}))
	for _, rate := range []float64{2_000, 8_000} {
		failed = append(failed, r.section(ctx, &section{
			name: fmt.Sprintf("%s%.0f calls per second", rateLimitSection, rate), traffic: traffic.Four, load: load{callers: 256, rate: rate}, subjects: r.rateLimits(traffic.Four),
		}))
	}
	for _, s := range []section{
		{name: beforeAttack, promised: true, traffic: traffic.Plain, load: load{callers: manyCallers, rate: 800}},
		{name: onTop, promised: true, traffic: traffic.Attack, load: load{callers: 256, rate: 8_000}},
		{name: equalRate + traffic.Plain.Name, traffic: traffic.Plain, load: load{callers: 256, rate: 4_000}},
		{name: equalRate + traffic.Attack.Name, traffic: traffic.Attack, load: load{callers: 256, rate: 4_000}},
	} {
		s.subjects = []*subject{r.redis.rateLimit()}
		failed = append(failed, r.section(ctx, &s))
	}
	return errors.Join(failed...)
}

func (r *run) doors(ctx context.Context) error {
	r.Chapter("The other doors", "")
	many := load{callers: manyCallers}
	nginxAsks := func(i *instance) *subject { return i.web(authRequest) }
	three := func(door func(*instance) *subject) []*subject {
		return []*subject{door(r.constant), door(r.memory), door(r.redis)}
	}
	return errors.Join(
		r.section(ctx, &section{name: authorizationSection, traffic: traffic.Plain, load: many, subjects: three((*instance).authorization)}),
		r.section(ctx, &section{name: authorizationFour, traffic: traffic.FourOfOne, load: many, subjects: three((*instance).authorization)}),
		r.section(ctx, &section{name: authRequestSection, traffic: traffic.Plain, load: many, subjects: append(three(nginxAsks), nginxAsks(r.same))}),
		r.section(ctx, &section{name: authRequestTwo, traffic: traffic.TwoOfOne, load: many, subjects: three(nginxAsks)}),
		r.section(ctx, &section{name: authRequestTwoFull, traffic: traffic.TwoFull, load: many, subjects: three(nginxAsks)[1:]}),
		r.section(ctx, &section{name: authRequestAlone, promised: true, traffic: traffic.Plain, load: load{callers: 1}, subjects: []*subject{nginxAsks(r.same), nginxAsks(r.memory), nginxAsks(r.constant)}}),
		r.section(ctx, &section{name: koalaSection, traffic: traffic.Plain, load: many, subjects: three(func(i *instance) *subject { return i.web(koalaBrowse) })}),
	)
}

// stores measures the stores without a service. The column of the service contains the
// cost of store and callers together, because they are one process.
func (r *run) stores(ctx context.Context) error {
	r.Chapter("The stores alone", "")
	var failed []error
	for _, t := range []traffic.Kind{traffic.Plain, traffic.Four, traffic.Methods, traffic.Attack} {
		memory := memory.New(memory.Options{})
		redis, err := remote.Open(redis.Options{URL: "redis://" + r.redis.redisAddress, Prefix: "bare", Budget: maxWait})
		if err != nil {
			return err
		}
		failed = append(failed, r.section(ctx, &section{
			name: storesSection + t.Name, promised: t.Name == traffic.Plain.Name || t.Name == traffic.Attack.Name, traffic: t, load: load{callers: manyCallers},
			subjects: []*subject{bare("in process", memory, 0, ""), bare(bareRedis, redis, r.redis.redis, r.redis.redisAddress)},
		}), redis.Close())
		memory.Close()
	}
	return errors.Join(failed...)
}
