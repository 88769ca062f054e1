package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/lag"
	"github.com/koalagate/koalagate/internal/store/redisconn"
)

const (
	// margin is the part of a caller's deadline that is left for the way back,
	// and for the in-process store's answer if Redis gives none.
	margin = 5 * time.Millisecond
	// fairTime is how much time a call must have had before its timeout counts
	// against Redis: callers that allow 10 ms leave as much above the margin. It
	// is below what Envoy's rate limit filter leaves by default.
	fairTime = 10*time.Millisecond - margin
)

// Sender has Redis carry out calls: a Batcher at one server, package cluster at
// the node that owns the slot of the call.
type Sender interface {
	// Send has the script carry out c and waits for its answer. If the caller's
	// time ends first, abandoned reports that a batch may still refer to c, so
	// that it must not be used again.
	Send(ctx context.Context, c *Call) (abandoned bool, err error)
}

// leastInstant is the least linger that is an instant, in ms since the epoch.
const leastInstant = 1_000_000_000_000

// Evaluator is the callers' side of a store in Redis: it packs plans into
// calls, answers refusals from memory and reads replies. A Sender connects it
// to Redis. It is safe for concurrent use.
type Evaluator struct {
	script   *goredis.Script
	prefix   string
	begin    string // of every key, up to the subject's braces
	tag      string // of the keys of receipts; empty if their slots differ
	budget   time.Duration
	batching Batching
	calendar store.Calendar
	linger   int64 // as in lua/plan.lua
	onDamage func(key string)
	skew     atomic.Int64 // Redis's clock minus ours, ms; measured only when spans did not fit
	calls    sync.Pool
	refusals *refusals // nil if none are remembered
	receipts *descriptions
	plans    atomic.Int64
	scripts  atomic.Int64
	flying   atomic.Int64 // round trips under way
	waiting  atomic.Int64 // calls in the queues of all batchers
	woken    atomic.Int64 // see Calls.Wakeups
	onTrip   func(took time.Duration, fault string)
	onScript func(decisions int)
	lag      *lag.Probe
}

// NewEvaluator returns an Evaluator with these options. It ignores the address.
func NewEvaluator(o *Options) (*Evaluator, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	e := &Evaluator{
		script: goredis.NewScript(script()), prefix: o.prefix(), budget: o.budget(), batching: o.Batching,
		linger: 1000, onDamage: withoutPanics(o.OnDamage),
		onTrip: o.OnRoundTrip, onScript: o.OnScript,
	}
	e.begin, e.tag = keyBegin(e.prefix, o.Space, o.FixedTag), ReceiptTag
	e.prefix = spaced(e.prefix, o.Space)
	if e.batching == "" {
		e.batching = BatchScript
	}
	switch {
	case o.Refusals > 0:
		e.refusals = newRefusals(o.Refusals, &e.calendar)
	case o.Refusals == 0:
		e.refusals = newRefusals(DefaultRefusals, &e.calendar)
	}
	e.receipts = newDescriptions(cmp.Or(o.Receipts, DefaultReceipts))
	if o.Linger > 0 {
		e.linger = o.Linger.Milliseconds()
	}
	if !o.Until.IsZero() {
		e.linger = max(o.Until.UnixMilli(), leastInstant)
	}
	e.calls.New = func() any { return new(Call) }
	e.lag = lag.New(o.OnLag, func() bool { return e.flying.Load() > 0 })
	return e, nil
}

// SplitReceipts leaves it to the sender's store where takes keep their receipts.
func (e *Evaluator) SplitReceipts() { e.tag = "" }

// Close ends the measurement of this process's lateness. It must be called once.
func (e *Evaluator) Close() { e.lag.Close() }

// NewBatcher returns a Batcher for the client's server.
func (e *Evaluator) NewBatcher(client goredis.UniversalClient) *Batcher {
	b := newBatcher(e.batching, e.budget, &server{e, client})
	b.late, b.queued, b.woken = e.lag.Late, &e.waiting, &e.woken
	return b
}

// Begin checks the plan and the time that ctx leaves, resets a and returns the
// packed call. Start or Release follows.
func (e *Evaluator) Begin(ctx context.Context, p *store.Plan, a *store.Answers) (*Call, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: no time left for a call: %w", redisconn.ErrUnsent, err)
	}
	now := time.Now()
	end := e.deadline(ctx, now)
	if !now.Before(end) {
		return nil, fmt.Errorf("%w: no time left for a call: %w", redisconn.ErrUnsent, context.DeadlineExceeded)
	}
	a.Reset(len(p.Sets))
	c := e.Acquire(p)
	c.start, c.end = now, end
	return c, nil
}

// Start returns the context with which to send the call; End then ends the call. If the
// call is answered from memory, Start fills a, releases the call and returns nil. ctx, p
// and a are the arguments of Begin.
func (e *Evaluator) Start(ctx context.Context, c *Call, p *store.Plan, a *store.Answers) context.Context {
	if e.refusals != nil && e.refusals.answer(c, p, a) {
		e.Release(c)
		return nil
	}
	c.time.begin(ctx, c.start, c.end)
	return &c.time
}

// End fills a from the reply to the call, unless Send returned an error, and releases the
// call. abandoned and err are the results of Send.
func (e *Evaluator) End(c *Call, p *store.Plan, a *store.Answers, abandoned bool, err error) (store.Attempt, error) {
	if err != nil {
		err = fmt.Errorf("redis: evaluate: %w", err)
	} else if err = c.Read(p, a); a.Receipt != "" {
		e.RememberReceipt(c, a)
	}
	if e.refusals != nil {
		e.refusals.update(c, p, a, err)
	}
	attempt := store.Attempt{Health: store.Answered, Trip: c.Trip}
	if err != nil {
		attempt.Health, attempt.Unsent = e.Judge(err, c.end.Sub(c.start)), errors.Is(err, redisconn.ErrUnsent)
	}
	if abandoned && !attempt.Unsent {
		attempt.Late = c
	}
	if c.time.finish() && !abandoned {
		e.Release(c)
	}
	return attempt, err
}

// Judge returns what the error of a call that had this time shows about Redis. A
// timeout shows nothing if the caller had too little time, or this process too
// little CPU, and neither does a connection for which this process had no file: none
// of them must make Redis unreachable for the others.
func (e *Evaluator) Judge(err error, given time.Duration) store.Health {
	switch {
	case err == nil:
		return store.Answered
	case errors.Is(err, redisconn.ErrStarved), errors.Is(err, redisconn.ErrQueueFull), redisconn.LacksFiles(err):
		return store.Starved
	case redisconn.TimedOut(err): // the error of a connection may be one of time too
		if e.Hurried(given) {
			return store.Starved
		}
		return store.Failed
	case redisconn.Unreachable(err):
		return store.Unreachable
	}
	return store.Failed
}

// Hurried reports whether a call had so little time that its timeout shows
// nothing about Redis.
func (e *Evaluator) Hurried(given time.Duration) bool { return given < min(fairTime, e.budget) }

// Acquire returns a pooled call of the plan.
func (e *Evaluator) Acquire(p *store.Plan) *Call {
	c := e.calls.Get().(*Call)
	c.pack(e.begin, e.tag, p)
	return c
}

// Release returns a call to the pool. An abandoned call must not be released.
func (e *Evaluator) Release(c *Call) { e.calls.Put(c) }

// NewCall returns a call of the plan that is not pooled.
func (e *Evaluator) NewCall(p *store.Plan) *Call {
	c := new(Call)
	c.pack(e.begin, e.tag, p)
	return c
}

// deadline returns when a call that starts now must end.
func (e *Evaluator) deadline(ctx context.Context, now time.Time) time.Time {
	end := now.Add(e.budget)
	if own, ok := ctx.Deadline(); ok && own.Add(-margin).Before(end) {
		return own.Add(-margin)
	}
	return end
}

// span returns the calendar units that the script may choose from for a plan of a
// zone and a clock: also those before and after, because the clocks of Redis and of
// this process differ.
func (e *Evaluator) span(zone *time.Location, p store.Period, now int64) store.Span {
	if now == 0 {
		now = time.Now().UnixMilli() + e.skew.Load()
	}
	return e.calendar.Span(zone, p, now)
}

// Budget returns the bound of a call.
func (e *Evaluator) Budget() time.Duration { return e.budget }

// Prefix returns the prefix of all keys.
func (e *Evaluator) Prefix() string { return e.prefix }

// AppendKey appends the key of a subject to b.
func (e *Evaluator) AppendKey(b, subject []byte) []byte { return appendKey(b, e.begin, subject) }

// Changed drops the remembered refusals of the call's counters, which the call
// may have changed.
func (e *Evaluator) Changed(c *Call, p *store.Plan) {
	if e.refusals != nil {
		e.refusals.invalidate(c, p)
	}
}

// ForgetRefusals drops all remembered refusals.
func (e *Evaluator) ForgetRefusals() {
	if e.refusals != nil {
		e.refusals.forget()
	}
}

// Calls counts how plans were carried out.
type Calls struct {
	Plans      int64 // sent to Redis
	Scripts    int64 // script calls that carried them
	Remembered int64 // refused from memory, without Redis
	// Wakeups counts goroutines that batches make run: one that sends a batch, and
	// each caller when it is answered. A caller that sends its own call wakes none.
	Wakeups int64
	// Stranded counts parts of takes over several slots of a Cluster that were
	// not given back, because too many give-backs were under way or the node
	// did not answer. Their hits may stay until the windows end.
	Stranded int64
}

// Calls returns how plans were carried out so far, without Stranded.
func (e *Evaluator) Calls() Calls {
	c := Calls{Plans: e.plans.Load(), Scripts: e.scripts.Load(), Wakeups: e.woken.Load()}
	if e.refusals != nil {
		c.Remembered = e.refusals.answered.Load()
	}
	return c
}

// CheckPlan returns a plan that counts on a key of its own, and so uses
// everything of Redis that other plans use. suffix distinguishes such keys. No
// identity begins with the first byte of their subjects.
func CheckPlan(suffix string) *store.Plan {
	return &store.Plan{Op: store.Update, Zone: time.UTC, Sets: []store.Set{{Rules: []store.Rule{
		{Subject: append([]byte("\xf5check"), suffix...), Method: store.Count, Weight: 1, Time: 1, Count: 1},
	}}}}
}
