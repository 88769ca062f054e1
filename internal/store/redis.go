package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis keeps the counters in a Redis that several instances share. A plan is
// one call of the script, which Redis carries out without another between.
// It is safe for concurrent use.
type Redis struct {
	client   redis.UniversalClient // nil for a Cluster
	owned    bool                  // the client is closed with the store
	nodes    *nodes                // of a Cluster, else nil
	script   *redis.Script
	prefix   string
	begin    string // of every key, up to the subject's braces
	budget   time.Duration
	calendar calendar
	shortcut bool  // calls that only count go the short way
	linger   int64 // how long Redis keeps a counter beyond its end, ms
	onDamage func(key string)
	skew     atomic.Int64 // what Redis's clock is ahead of ours, ms; known only once it mattered
	calls    sync.Pool
	batches  *batches
	refusals *refusals // nil where none are remembered
	plans    atomic.Int64
	scripts  atomic.Int64

	givingBack atomic.Int64
	stranded   atomic.Int64
}

var _ Store = (*Redis)(nil)

// RedisOptions are what a Redis store needs.
type RedisOptions struct {
	// URL is where Redis is: redis://user:password@host:6379/0, unix:///path
	// (with ?db=1), or redis-sentinel://host:26379,host:26379/master/0, whose
	// user and password are the master's, or redis-cluster://host:port,host:port
	// with some of the nodes. With rediss in place of redis it is TLS, to the
	// Sentinels too. ?pool_size= is the number of connections, 64
	// without. Ignored, as what goes with it below, if there is a Client.
	URL string
	// Username and Password are those of Redis where the URL holds none.
	Username, Password string
	// SentinelUsername and SentinelPassword are those of the Sentinels.
	SentinelUsername, SentinelPassword string
	// TLS is what a URL with rediss goes by.
	TLS TLSFiles
	// FixedTag puts all counters of a Cluster that have this prefix into one
	// slot: each plan is one atomic step then, and all of them are one node's
	// work. Else the counters of an identity share a slot.
	FixedTag bool
	// Client is used in place of one of the store's own, and stays the
	// caller's to close. It must not repeat calls (MaxRetries -1): a call
	// that was counted and not answered would count twice.
	Client redis.UniversalClient
	// Prefix begins every key; "" means DefaultPrefix. It has at most
	// MaxPrefix bytes of printable ASCII without braces.
	Prefix string
	// Budget is the longest that a call may take; 0 means DefaultBudget. A
	// caller's own deadline, less a margin, is kept too.
	Budget time.Duration
	// Batching is how calls that come at the same time go to Redis; "" means
	// BatchScript.
	Batching Batching
	// NoCountPath has the script take its general way for calls that only take,
	// on count rules alone. The answers are the same; they cost Redis more.
	NoCountPath bool
	// Refusals is how many refusals the store remembers, for a second at most:
	// calls that Redis would refuse again are not sent. 0 means DefaultRefusals,
	// less than 0 none.
	Refusals int
	// OnDamage is told of a key that held no counters: it was tampered with, or
	// is somebody else's. What is counted there was taken for absent. It is
	// called with every script call that meets such a key, by many goroutines,
	// and must return at once. A panic of it is dropped: the call is many
	// callers', and none of them can be handed it.
	OnDamage func(key string)
	// Linger is how long Redis keeps a counter beyond its end; 0 means a second.
	// More is needed only where plans bring a clock that is slower than that
	// of Redis, as those of a replay may.
	Linger time.Duration
}

// DefaultRefusals is how many refusals are remembered: some megabytes of them.
const DefaultRefusals = 1 << 15

const (
	// DefaultBudget is the longest that a call to Redis may take.
	DefaultBudget = 100 * time.Millisecond
	// margin is what is left of a caller's deadline for the way back, and for
	// the rescue store's answer if Redis gives none.
	margin = 5 * time.Millisecond
	// maxAttempts bounds how often days are sent anew. The second attempt
	// knows Redis's clock, so a third is needed at midnight only.
	maxAttempts = 3
)

// NewRedis returns a store in the Redis that o names. It does not wait for it:
// Check tells whether it is there.
func NewRedis(o RedisOptions) (*Redis, error) {
	r := &Redis{client: o.Client, script: redis.NewScript(script), prefix: o.Prefix, budget: o.Budget, linger: 1000, shortcut: !o.NoCountPath, onDamage: unharmed(o.OnDamage)}
	if r.prefix == "" {
		r.prefix = DefaultPrefix
	}
	if err := checkPrefix(r.prefix); err != nil {
		return nil, err
	}
	r.begin = keyBegin(r.prefix, o.FixedTag)
	if r.budget == 0 {
		r.budget = DefaultBudget
	}
	if r.budget < 0 {
		return nil, fmt.Errorf("redis budget %v: want more than 0", r.budget)
	}
	batching, err := checkBatching(o.Batching)
	if err != nil {
		return nil, err
	}
	switch {
	case o.Refusals > 0:
		r.refusals = newRefusals(o.Refusals)
	case o.Refusals == 0:
		r.refusals = newRefusals(DefaultRefusals)
	}
	if o.Linger > 0 {
		r.linger = o.Linger.Milliseconds()
	}
	r.calls.New = func() any { return new(call) }
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Client == nil {
		o.Budget = r.budget
		address, err := o.address()
		if err != nil {
			return nil, err
		}
		if address.shape == cluster {
			r.startNodes(address, &o, batching)
			return r, nil
		}
		r.client, r.owned = address.connect(&o), true
	}
	r.batches = newBatches(batching, r.budget, func(ctx context.Context, bundles []*bundle) {
		r.exchange(ctx, r.client, bundles)
	})
	return r, nil
}

// Close ends the calls under way and the connections, unless these are a
// caller's.
func (r *Redis) Close() error {
	if r.nodes != nil {
		return r.nodes.close()
	}
	r.batches.close()
	if !r.owned {
		return nil
	}
	return r.client.Close()
}

// Evaluate carries out the plan as one atomic step and fills a. A call that
// ends without an answer may have been counted and is not repeated. On a
// Cluster, a plan whose counters lie in several slots is a step in each of
// them: see apart.
func (r *Redis) Evaluate(ctx context.Context, p *Plan, a *Answers) error {
	_, err := r.evaluate(ctx, p, a)
	return err
}

// way is how a plan went to Redis.
type way struct {
	asked bool   // a refusal that is remembered says nothing about Redis
	trip  uint64 // the round trip that failed it, or look at the slots of a Cluster, which may be that of others too; 0 where that is not known
}

// evaluate does that, and tells how the plan went.
func (r *Redis) evaluate(ctx context.Context, p *Plan, a *Answers) (w way, err error) {
	if err := p.check(); err != nil {
		return w, err
	}
	if err := ctx.Err(); err != nil {
		return w, fmt.Errorf("redis: no time is left for a call: %w", err)
	}
	now := time.Now()
	end := r.deadline(ctx, now)
	if !now.Before(end) {
		return w, fmt.Errorf("redis: no time is left for a call: %w", context.DeadlineExceeded)
	}
	a.reset(len(p.Sets))
	c := r.calls.Get().(*call)
	c.pack(r.begin, p)
	if r.nodes != nil && !c.inOneSlot() {
		r.calls.Put(c)
		ctx, cancel := context.WithDeadline(ctx, end)
		defer cancel()
		err := r.evaluateApart(ctx, p, a)
		return way{asked: true, trip: lookOf(err)}, err
	}
	if r.refusals != nil && r.refusals.tell(c, p, a) {
		r.calls.Put(c)
		return w, nil
	}
	c.time.begin(ctx, now, end)
	lost, err := r.carryOut(&c.time, c) //nolint:contextcheck // it is the caller's, with an end
	if err == nil {
		err = c.read(p, a)
	}
	if r.refusals != nil {
		r.refusals.keep(c, p, a, err, r.dayEnd)
	}
	w = way{asked: true, trip: c.trip}
	if r.nodes != nil { // each has a breaker and numbers of its own
		w.trip = lookOf(err)
	}
	if c.time.finish() && !lost {
		r.calls.Put(c)
	}
	return w, err
}

// carryOut has the script carry out c, with other days if those that were sent
// do not fit its clock. Where the caller's time ends first, lost tells that c
// must not be used again.
func (r *Redis) carryOut(ctx context.Context, c *call) (lost bool, err error) {
	for range maxAttempts {
		if r.nodes != nil {
			lost, err = r.nodes.run(ctx, c)
		} else {
			lost, err = r.batches.run(ctx, c)
		}
		if err != nil {
			return lost, fmt.Errorf("redis: evaluate: %w", err)
		}
		if c.answer.fits {
			return false, nil
		}
		r.skew.Store(c.answer.now - time.Now().UnixMilli())
	}
	return false, errors.New("redis: its clock leaps: no calendar day fits it")
}

// deadline is when a call that begins then has to be over.
func (r *Redis) deadline(ctx context.Context, begin time.Time) time.Time {
	end := begin.Add(r.budget)
	if own, ok := ctx.Deadline(); ok && own.Add(-margin).Before(end) {
		return own.Add(-margin)
	}
	return end
}

// days are what the script may choose from for a plan of a zone and a clock.
func (r *Redis) days(zone *time.Location, now int64) days {
	if now == 0 {
		now = time.Now().UnixMilli() + r.skew.Load()
	}
	return r.calendar.days(zone, now)
}

// dayEnd is when the plan's day ends, at an instant of Redis's clock.
func (r *Redis) dayEnd(p *Plan, now int64) int64 { return r.calendar.days(p.Zone, now).begins[2] }

// Calls is how plans were carried out so far.
type Calls struct {
	Plans      int64 // sent to Redis
	Scripts    int64 // the script calls that they took
	Remembered int64 // refused from memory, without Redis
	// Stranded are parts of takes over several slots of a Cluster that were not
	// given back, since too many were on their way or the node did not answer:
	// what they counted may stay until its windows end.
	Stranded int64
}

// Calls tells how plans were carried out so far.
func (r *Redis) Calls() Calls {
	c := Calls{Plans: r.plans.Load(), Scripts: r.scripts.Load(), Stranded: r.stranded.Load()}
	if r.refusals != nil {
		c.Remembered = r.refusals.told.Load()
	}
	return c
}
