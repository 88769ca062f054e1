package store

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// Rescue is Redis as long as it answers, else the in-process store: then each
// instance counts for itself, and what it counts is lost when Redis is back.
// Whether Redis is asked at all is known here and nowhere else.
type Rescue struct {
	redis    *Redis
	memory   *Memory
	onChange func(State)
	onRescue func(error)

	away     atomic.Bool  // Redis is not asked
	failures atomic.Int32 // calls in a row that it did not answer
	mu       sync.Mutex   // guards state, and the order of changes
	state    State

	wake   chan struct{} // tells the probe that Redis went away
	ctx    context.Context
	cancel context.CancelFunc
	ended  chan struct{}
}

var _ Store = (*Rescue)(nil)

// State is whether Redis or the in-process store answers.
type State struct {
	// Degraded tells that the in-process store answers.
	Degraded bool
	// Since is when that began, or ended.
	Since time.Time
	// Err is what Redis was last found away with; nil if it never was.
	Err error
}

// RescueOptions are what a Rescue can be told.
type RescueOptions struct {
	// OnChange is called with every change of the state, one at a time, from
	// the goroutine that saw it. It must not block.
	OnChange func(State)
	// OnRescue is called with what Redis said to a call that the in-process
	// store then answered, while Redis is not taken to be away. It may be
	// called often and by many at a time, and must not block.
	OnRescue func(error)
}

const (
	// probeEvery is how often Redis is looked for while it is away.
	probeEvery = 100 * time.Millisecond
	// maxFailures is how many calls in a row have no answer before Redis is
	// taken to be away. One alone may be a pause of its own, or a fault of
	// one plan.
	maxFailures = 3
	// forgetAfter is how long Redis is back before what was counted in its
	// place is forgotten: longer than it takes a Redis that comes and goes to
	// settle, so that limits are not fresh each time.
	forgetAfter = time.Minute
	// fairWait is how much time a call must be given before its timeout says
	// something about Redis. It is below what Envoy's rate limit filter leaves by default.
	fairWait = 10 * time.Millisecond
)

// NewRescue returns a store that answers from redis, else from memory. It asks
// first whether Redis is there, so that an instance that starts beside a
// working Redis counts its first call there. The caller closes redis and
// memory after it.
func NewRescue(redis *Redis, memory *Memory, o RescueOptions) *Rescue {
	r := &Rescue{
		redis:    redis,
		memory:   memory,
		onChange: o.OnChange,
		onRescue: o.OnRescue,
		state:    State{Since: time.Now()},
		wake:     make(chan struct{}, 1),
		ended:    make(chan struct{}),
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	if err := r.findRedis(); err != nil {
		r.leave(err)
	}
	go r.probe()
	return r
}

// findRedis asks whether Redis is there, more than once if it is only slow: a
// machine that starts many things at a time is busy.
func (r *Rescue) findRedis() error {
	for range maxFailures {
		if err := r.redis.Check(r.ctx); err == nil || !timedOut(err) {
			return err
		}
	}
	return r.redis.Check(r.ctx)
}

// Close ends the probe.
func (r *Rescue) Close() {
	r.cancel()
	<-r.ended
}

// State is whether Redis or the in-process store answers.
func (r *Rescue) State() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// Evaluate carries out the plan in Redis, or in process and says so in
// a.Degraded. The error is that of the caller's own context or of the plan.
func (r *Rescue) Evaluate(ctx context.Context, p *Plan, a *Answers) error {
	if err := p.check(); err != nil {
		return err // a fault of the plan says nothing about Redis
	}
	if !r.away.Load() {
		begin := time.Now()
		err := r.redis.Evaluate(ctx, p, a)
		if err == nil {
			if r.failures.Load() != 0 {
				r.failures.Store(0)
			}
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err // the caller is gone: that says nothing about Redis
		}
		r.judge(err, r.redis.deadline(ctx, begin).Sub(begin))
	}
	err := r.memory.Evaluate(ctx, lenient(p), a)
	a.Degraded = true
	return err
}

// lenient is the plan with rules that do not decide in rescue as shadow rules.
func lenient(p *Plan) *Plan {
	if !slices.ContainsFunc(p.Sets, func(s Set) bool {
		return slices.ContainsFunc(s.Rules, func(r Rule) bool { return r.Lenient })
	}) {
		return p
	}
	changed := *p
	changed.Sets = slices.Clone(p.Sets)
	for i := range changed.Sets {
		rules := slices.Clone(p.Sets[i].Rules)
		for j := range rules {
			rules[j].Shadow = rules[j].Shadow || rules[j].Lenient
		}
		changed.Sets[i].Rules = rules
	}
	return &changed
}

// judge decides what a failed call says about Redis. A timeout says nothing if
// the caller had no time to give: hurried callers must not take Redis away from
// the others.
func (r *Rescue) judge(err error, given time.Duration) {
	late := timedOut(err) // which a connection's own error may be too
	hurried := late && given < min(fairWait, r.redis.budget)
	switch {
	case !late && gone(err), !hurried && r.failures.Add(1) >= maxFailures:
		r.leave(err)
	case r.onRescue != nil:
		r.onRescue(err)
	}
}

// timedOut tells whether a call got no answer in time.
func timedOut(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.Is(err, redis.ErrPoolTimeout) || errors.As(err, &network) && network.Timeout()
}

// unable are the replies of a Redis that cannot count for anyone now.
var unable = []string{
	"LOADING", "READONLY", "MASTERDOWN", "NOREPLICAS", "CLUSTERDOWN", "TRYAGAIN",
	"NOAUTH", "WRONGPASS", "NOPERM", "OOM", "MISCONF", "BUSY", "MAX NUMBER OF CLIENTS REACHED",
}

// gone tells whether the connection or Redis itself is of no use.
func gone(err error) bool {
	var reply redis.Error
	if errors.As(err, &reply) {
		for _, prefix := range unable {
			if redis.HasErrorPrefix(err, prefix) {
				return true
			}
		}
		return false
	}
	var network *net.OpError
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, redis.ErrClosed)
}

// leave stops asking Redis.
func (r *Rescue) leave(err error) {
	r.change(true, err)
	select {
	case r.wake <- struct{}{}:
	default: // it is awake
	}
}

// change notes whether Redis is away, and tells of it if that is new.
func (r *Rescue) change(away bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.state.Err = err
	}
	if r.state.Degraded == away {
		return
	}
	r.state.Degraded, r.state.Since = away, time.Now()
	r.failures.Store(0)
	r.away.Store(away)
	if r.onChange != nil {
		r.onChange(r.state)
	}
}

// probe looks for Redis while it is away, sleeps while it is there, and ends
// with Close.
func (r *Rescue) probe() {
	defer close(r.ended)
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-time.After(forgetAfter):
			r.memory.Clear()
			continue
		case <-r.wake:
		}
		for r.away.Load() {
			select {
			case <-r.ctx.Done():
				return
			case <-time.After(probeEvery):
			}
			if err := r.redis.Check(r.ctx); err != nil {
				r.change(true, err)
			} else {
				r.change(false, nil)
			}
		}
	}
}
