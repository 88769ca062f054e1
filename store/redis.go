package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

//go:embed evaluate.lua
var evaluateLua string

// Redis keeps the counters in a Redis that several instances share. A plan is
// one call of evaluate.lua, which Redis carries out without another between.
// It is safe for concurrent use.
type Redis struct {
	client   redis.UniversalClient
	owned    bool // the client is closed with the store
	script   *redis.Script
	prefix   string
	budget   time.Duration
	calendar calendar
	linger   string // what the script is told of RedisOptions.Linger, "" for nothing
	onDamage func(key string)
	skew     atomic.Int64 // what Redis's clock is ahead of ours, ms; known only once it mattered
	calls    sync.Pool
	batches  *batches
}

var _ Store = (*Redis)(nil)

// RedisOptions are what a Redis store needs.
type RedisOptions struct {
	// URL is where Redis is: redis://user:password@host:6379/0, rediss:// for
	// TLS, unix:///path. Ignored if there is a Client.
	URL string
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
	// OnDamage is told of a key that held no counters: it was tampered with, or
	// is somebody else's. What is counted there was taken for absent. It is
	// called with every call that meets such a key, by many goroutines, and
	// must return at once.
	OnDamage func(key string)
	// Linger is how long Redis keeps a counter beyond its end; 0 means a second.
	// More is needed only where plans bring a clock that is slower than that
	// of Redis, as those of a replay may.
	Linger time.Duration
}

const (
	// DefaultBudget is the longest that a call to Redis may take.
	DefaultBudget = 100 * time.Millisecond
	// margin is what is left of a caller's deadline for the way back, and for
	// the rescue store's answer if Redis gives none.
	margin = 5 * time.Millisecond
	// poolSize is the number of connections. A call holds one for one round
	// trip; more would only wait within Redis, which does one at a time.
	poolSize = 64
	// maxAttempts bounds how often days are sent anew. The second attempt
	// knows Redis's clock, so a third is needed at midnight only.
	maxAttempts = 3
)

// NewRedis returns a store in the Redis that o names. It does not wait for it:
// Check tells whether it is there.
func NewRedis(o RedisOptions) (*Redis, error) {
	r := &Redis{client: o.Client, script: redis.NewScript(evaluateLua), prefix: o.Prefix, budget: o.Budget, onDamage: o.OnDamage}
	if r.prefix == "" {
		r.prefix = DefaultPrefix
	}
	if err := checkPrefix(r.prefix); err != nil {
		return nil, err
	}
	if r.budget == 0 {
		r.budget = DefaultBudget
	}
	if r.budget < 0 {
		return nil, fmt.Errorf("redis budget %v: want more than 0", r.budget)
	}
	if o.Linger > 0 {
		r.linger = strconv.FormatInt(o.Linger.Milliseconds(), 10)
	}
	r.calls.New = func() any { return new(call) }
	if r.client != nil {
		if err := checkClient(r.client); err != nil {
			return nil, err
		}
	} else {
		client, err := connect(o.URL, r.budget)
		if err != nil {
			return nil, err
		}
		r.client, r.owned = client, true
	}
	r.batches = newBatches(r.client, r.script, r.budget)
	return r, nil
}

// connect makes a client that gives up in time and never repeats a call.
func connect(url string, budget time.Duration) (*redis.Client, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		// The error of ParseURL may quote the URL, and so its password.
		return nil, errors.New("redis URL: it cannot be read; want redis://[user:password@]host:port/number, rediss://… or unix:///path")
	}
	o.MaxRetries = -1
	o.ContextTimeoutEnabled = true
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = budget, budget, budget
	o.PoolTimeout = budget
	o.DialerRetries = 1
	if o.PoolSize == 0 {
		o.PoolSize = poolSize
	}
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(o), nil
}

// LogClient has log called with what the Redis client has to say for itself:
// failed dials mostly, which the errors of calls tell too. It holds for the
// whole process, whose standard error gets these lines otherwise.
func LogClient(log func(message string)) { redis.SetLogger(clientLog(log)) }

type clientLog func(message string)

// Printf is what the client calls.
func (l clientLog) Printf(_ context.Context, format string, v ...any) {
	l(fmt.Sprintf(format, v...))
}

// checkClient refuses a client that repeats calls, as far as that can be seen.
func checkClient(client redis.UniversalClient) error {
	if c, ok := client.(*redis.Client); ok && c.Options().MaxRetries > 0 {
		return fmt.Errorf("redis client: it repeats a call up to %d times, and each may count; want MaxRetries -1", c.Options().MaxRetries)
	}
	return nil
}

// Close ends the calls under way and the connections, unless these are a
// caller's.
func (r *Redis) Close() error {
	r.batches.close()
	if !r.owned {
		return nil
	}
	return r.client.Close()
}

// checkPlan counts on a key of its own, and so asks of Redis all that other
// plans do. No identity begins with its first byte.
var checkPlan = Plan{Op: Update, Zone: time.UTC, Sets: []Set{{Rules: []Rule{
	{Subject: []byte("\xf5check"), Method: Count, Weight: 1, Time: 1, Count: 1},
}}}}

// Check tells whether Redis is there and can count: it takes a connection, the
// script and all that the script calls. An error says what is in the way.
func (r *Redis) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.budget)
	defer cancel()
	err := r.dial(ctx)
	if err == nil {
		err = r.Evaluate(ctx, &checkPlan, new(Answers))
	}
	if err != nil {
		return fmt.Errorf("redis: check: %w", err)
	}
	return nil
}

// dial connects outside of the pool and hangs up. After as many failed dials
// as it has connections the pool dials by itself, once a second, and fails
// every call until then: Redis would be found back a second late.
func (r *Redis) dial(ctx context.Context) error {
	client, ok := r.client.(*redis.Client)
	if !ok {
		return nil
	}
	o := client.Options()
	connection, err := o.Dialer(ctx, o.Network, o.Addr)
	if err != nil {
		return err
	}
	return connection.Close()
}

// Evaluate carries out the plan as one atomic step and fills a. A call that
// ends without an answer may have been counted and is not repeated.
func (r *Redis) Evaluate(ctx context.Context, p *Plan, a *Answers) error {
	if err := p.check(); err != nil {
		return err
	}
	ctx, cancel := context.WithDeadline(ctx, r.deadline(ctx, time.Now()))
	defer cancel()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("redis: no time is left for a call: %w", err)
	}
	c := r.calls.Get().(*call)
	lost := false
	defer func() {
		if !lost {
			r.calls.Put(c)
		}
	}()
	for range maxAttempts {
		a.reset(len(p.Sets))
		c.pack(r.prefix, p, r.days(p))
		var text string
		var err error
		if text, lost, err = r.run(ctx, c); err != nil {
			return fmt.Errorf("redis: evaluate: %w", err)
		}
		fits, err := c.reply(text, a)
		if err != nil {
			return err
		}
		if fits {
			r.tellDamage(c)
			return nil
		}
		r.skew.Store(a.Now - time.Now().UnixMilli())
	}
	return errors.New("redis: its clock leaps: no calendar day fits it")
}

// tellDamage tells of the values that were no counters.
func (r *Redis) tellDamage(c *call) {
	if r.onDamage == nil {
		return
	}
	for _, i := range c.damaged {
		if i > 0 {
			r.onDamage(c.keys[i-1])
		}
	}
}

// deadline is when a call that begins then has to be over.
func (r *Redis) deadline(ctx context.Context, begin time.Time) time.Time {
	end := begin.Add(r.budget)
	if own, ok := ctx.Deadline(); ok && own.Add(-margin).Before(end) {
		return own.Add(-margin)
	}
	return end
}

// days are what the script may choose today from, nil if no rule asks.
func (r *Redis) days(p *Plan) []int64 {
	if !p.daily() {
		return nil
	}
	now := p.Now
	if now == 0 {
		now = time.Now().UnixMilli() + r.skew.Load()
	}
	d := r.calendar.days(p.Zone, now)
	return d.begins[:]
}

// run has the script carry out c, in one batch with others' calls.
func (r *Redis) run(ctx context.Context, c *call) (text string, lost bool, err error) {
	c.args = append(c.args[:0], c.blob)
	if r.linger != "" {
		c.args = append(c.args, r.linger)
	}
	return r.batches.run(ctx, c)
}
