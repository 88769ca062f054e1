package store

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Rescue is Redis as long as it answers, else the in-process store: then each
// instance counts for itself, and what it counts is lost when Redis is back.
// Whether Redis is asked at all is known here and nowhere else.
type Rescue struct {
	redis    *Redis
	memory   *Memory
	onChange func(State)
	onRescue func(error)
	share    float64

	gate    gate
	asked   atomic.Uint32 // calls that came while Redis is asked by some alone
	breaker breaker

	mu    sync.Mutex // guards the rest of it, and the order of changes
	state State
	told  map[string]bool // the remedies that this absence was told of with

	stage  func() <-chan time.Time // when a stage of the return that begins is over
	wake   chan struct{}           // tells the probe that Redis went away
	ctx    context.Context
	cancel context.CancelFunc
	ended  chan struct{}
}

var _ Store = (*Rescue)(nil)

// State is whether Redis or the in-process store answers.
type State struct {
	// Degraded tells that the in-process store answers; while Redis returns,
	// some of the calls.
	Degraded bool
	// Since is when that began, or ended.
	Since time.Time
	// Err is what Redis was last found away with; nil if it never was.
	Err error
}

// RescueOptions are what a Rescue can be told.
type RescueOptions struct {
	// OnChange is called with every change of the state, one at a time, from
	// the goroutine that saw it; and while Redis is away, once for each further
	// fault that it is found away with. It must not block.
	OnChange func(State)
	// OnRescue is called with what Redis said to a call that the in-process
	// store then answered, while Redis is not taken to be away. It may be
	// called often and by many at a time, and must not block.
	OnRescue func(error)
	// Share is the share of each limit that holds while the in-process store
	// answers, above 0 and up to 1: with 1/N, N instances admit together what
	// one Redis would. 0 stands for 1. See Rule.shared for how it is rounded.
	Share float64
}

const (
	// forgetAfter is how long Redis is back before what was counted in its
	// place is forgotten: longer than it takes a Redis that comes and goes to
	// settle, so that limits are not fresh each time.
	forgetAfter = time.Minute
	// fairWait is how much time a call must be given before its timeout says
	// something about Redis: callers that bring 10 ms leave as much above the
	// margin. It is below what Envoy's rate limit filter leaves by default.
	fairWait = 10*time.Millisecond - margin
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
		share:    o.Share,
		breaker:  breaker{now: time.Now},
		state:    State{Since: time.Now()},
		stage:    func() <-chan time.Time { return time.After(stageFor) },
		wake:     make(chan struct{}, 1),
		ended:    make(chan struct{}),
	}
	if r.share <= 0 || r.share > 1 {
		r.share = 1
	}
	r.gate.open()
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
	if absences, share := r.gate.look(); share == everyCall || share > 0 && r.asked.Add(1)%everyCall < share {
		begin := time.Now()
		way, err := r.redis.evaluate(ctx, p, a)
		if err == nil {
			if way.asked {
				r.breaker.answered()
			}
			r.memory.learn(p, a)
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err // the caller is gone: that says nothing about Redis
		}
		r.judge(err, r.redis.deadline(ctx, begin).Sub(begin), way.trip, absences)
	}
	err := r.memory.Evaluate(ctx, r.standIn(p), a)
	a.Degraded = true
	return err
}

// judge decides what a failed call says about Redis. A timeout says nothing if
// the caller had no time to give: hurried callers must not take Redis away from
// the others. Neither does a call from before the last absence.
func (r *Rescue) judge(err error, given time.Duration, trip uint64, absences uint32) {
	if now, _ := r.gate.look(); now != absences {
		return
	}
	// A connection's own error may be one of time too. Not so that of a call that
	// was not made, since its node was found away by others.
	late := timedOut(err) && !errors.Is(err, errAway)
	hurried := late && given < min(fairWait, r.redis.budget)
	switch {
	case ofOneNode(err): // the others of the Cluster still count
		if r.onRescue != nil {
			r.onRescue(err)
		}
	case !late && gone(err), !hurried && r.breaker.failed(trip):
		r.leave(err)
	case r.onRescue != nil:
		r.onRescue(err)
	}
}

// leave stops asking Redis.
func (r *Rescue) leave(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gate.close()
	r.breaker.reset()
	r.state.Err = err
	if r.state.Degraded {
		return // it was about to come back
	}
	r.state.Degraded, r.state.Since = true, time.Now()
	r.told = map[string]bool{Remedy(err): true}
	r.tell()
	select {
	case r.wake <- struct{}{}:
	default: // it is awake
	}
}

// tell tells of the state.
func (r *Rescue) tell() {
	if r.onChange != nil {
		r.onChange(r.state)
	}
}
