// Package lag measures how late this process runs its own timers.
//
// A goroutine that is ready to run waits for a CPU while the process is
// overloaded, throttled, stopped or collecting garbage. Then timeouts expire
// although the awaited reply has arrived, so a timeout is no evidence against
// the server. A Probe sets a timer again and again and adds up how late it
// expires; the time that a caller waited, less the lateness in it, is the time
// in which this process could have noticed a reply.
package lag

import (
	"sync"
	"time"
)

const (
	// period is the time between two wake-ups. A process that always lags
	// appears punctual for at most one period per wake-up, so it must be well
	// below the waiting times that are judged.
	period = 2 * time.Millisecond
	// tolerance is the lateness that any timer may have.
	tolerance = time.Millisecond
	// idle is how long after the last call of Late the probe stops: an idle
	// process must not wake up 500 times per second.
	idle = time.Second
)

// Probe measures the lateness of timers. Its goroutine runs while Late is being
// called. It is safe for concurrent use.
type Probe struct {
	observe func(time.Duration)
	now     func() time.Time
	after   func(time.Duration) <-chan time.Time

	mu      sync.Mutex
	late    time.Duration // of all wake-ups so far
	due     time.Time     // of the next wake-up; zero while the goroutine does not run
	read    time.Time     // when Late was last called
	closed  bool
	stop    chan struct{}
	running sync.WaitGroup
}

// New returns a probe. It calls observe, if that is not nil, with the lateness of
// each wake-up, 0 or more; observe must not block.
func New(observe func(time.Duration)) *Probe {
	return &Probe{observe: observe, now: time.Now, after: time.After, stop: make(chan struct{})}
}

// Close ends the goroutine for good. It must be called once.
func (p *Probe) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	close(p.stop)
	p.running.Wait()
}

// Late returns the sum of all lateness so far, including that of a wake-up that
// is overdue now. It never decreases: the difference between two calls is the
// lateness between them. Wake-ups that are at most a millisecond late do not
// count.
func (p *Probe) Late() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read = p.now()
	if p.due.IsZero() {
		if p.closed {
			return p.late
		}
		p.due = p.read.Add(period)
		p.running.Go(p.run)
	}
	return p.late + lateness(p.due, p.read)
}

// lateness returns how late a wake-up is that was due then.
func lateness(due, now time.Time) time.Duration {
	if late := now.Sub(due); late > tolerance {
		return late
	}
	return 0
}

// run measures until Close, or until Late was not called for long.
func (p *Probe) run() {
	for again := true; again; {
		select {
		case <-p.stop:
			return
		case <-p.after(period):
		}
		var late time.Duration
		late, again = p.woke()
		if p.observe != nil {
			p.observe(max(late, 0))
		}
	}
}

// woke records a wake-up, and reports whether there is to be another one.
func (p *Probe) woke() (late time.Duration, again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	late = now.Sub(p.due)
	p.late += lateness(p.due, now)
	if now.Sub(p.read) > idle {
		p.due = time.Time{}
		return late, false
	}
	p.due = now.Add(period)
	return late, true
}
