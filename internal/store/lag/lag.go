// Package lag measures how late the timers of this process run.
//
// A process that is overloaded, throttled, stopped or collecting garbage lets goroutines
// wait for a CPU, and a busy process looks at its connections only every 10 ms. A timeout
// may then expire although the reply has arrived, and is no evidence against the server. A
// Probe sends itself bytes through a pipe, and adds up how late it notices them. A caller
// subtracts the lateness from the time that it waited; the rest is the time in which this
// process could have noticed a reply.
package lag

import (
	"os"
	"sync"
	"time"
)

const (
	// period is the time between two wake-ups. A process that always lags
	// appears punctual for at most one period per wake-up, so it must be well
	// below the waiting times that are judged.
	period = 2 * time.Millisecond
	// tolerance is the lateness that any wake-up may have.
	tolerance = time.Millisecond
	// idle is how long the probe goes on after the last call of Late, unless it is busy: a
	// process that asks its server now and then must not wake up 500 times per second.
	idle = 10 * time.Millisecond
)

// Probe measures the lateness of wake-ups. Its goroutine wakes up after a call of Late, and
// as long as it is busy. It is safe for concurrent use.
type Probe struct {
	observe func(time.Duration)
	busy    func() bool
	now     func() time.Time
	open    func() (waiter, error)

	mu      sync.Mutex
	late    time.Duration // of all wake-ups so far
	due     time.Time     // of the next wake-up; zero while the goroutine rests
	read    time.Time     // when Late was last called, or the probe was last busy
	closed  bool
	waiter  waiter        // nil before the first call of Late
	resume  chan struct{} // ends a rest; closed by Close
	running sync.WaitGroup
}

// waiter waits as a caller waits for a reply.
type waiter interface {
	// wait waits for a time; it returns false after close, which may be called at
	// the same time.
	wait(time.Duration) bool
	close()
}

// New returns a probe. It calls observe, if that is not nil, with the lateness of
// each wake-up, 0 or more; observe must not block. busy reports whether lateness may be
// needed later: whether a reply is awaited.
func New(observe func(time.Duration), busy func() bool) *Probe {
	return &Probe{observe: observe, busy: busy, now: time.Now, open: newEcho, resume: make(chan struct{}, 1)}
}

// Close ends the goroutine for good. It must be called once.
func (p *Probe) Close() {
	p.mu.Lock()
	p.closed = true
	close(p.resume)
	if p.waiter != nil {
		p.waiter.close()
	}
	p.mu.Unlock()
	p.running.Wait()
}

// Late returns the sum of all lateness so far, including the lateness of a wake-up that
// is overdue now. It never decreases: the difference between two calls is the
// lateness between them. Wake-ups that are at most a millisecond late do not
// count.
func (p *Probe) Late() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read = p.now()
	if p.due.IsZero() {
		if p.closed || !p.start() {
			return p.late
		}
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

// start starts the goroutine, or ends its rest, and reports whether it did: without a free
// file descriptor nothing is measured.
func (p *Probe) start() bool {
	if p.waiter != nil {
		p.due = p.read.Add(period)
		p.resume <- struct{}{} // has room, because the goroutine rests
		return true
	}
	w, err := p.open()
	if err != nil {
		return false
	}
	p.waiter, p.due = w, p.read.Add(period)
	p.running.Go(func() { p.run(w) })
	return true
}

// run measures until Close, and rests when nobody needs that.
func (p *Probe) run(w waiter) {
	defer w.close()
	for w.wait(period) {
		late, again := p.woke()
		if p.observe != nil {
			p.observe(max(late, 0))
		}
		if !again {
			if _, open := <-p.resume; !open {
				return
			}
		}
	}
}

// woke records a wake-up, and reports whether to schedule another.
func (p *Probe) woke() (late time.Duration, again bool) {
	busy := p.busy()
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	late = now.Sub(p.due)
	p.late += lateness(p.due, now)
	if busy {
		p.read = now
	}
	if now.Sub(p.read) > idle {
		p.due = time.Time{}
		return late, false
	}
	p.due = now.Add(period)
	return late, true
}

// echo waits for a byte that a timer sends through a pipe. It is noticed as a
// reply of a server is, by the poller of the network.
type echo struct {
	reader, writer *os.File
	timer          *time.Timer
	sent, received [1]byte
}

func newEcho() (waiter, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	e := &echo{reader: r, writer: w}
	e.timer = time.AfterFunc(time.Hour, func() { _, _ = w.Write(e.sent[:]) }) // it fails after close
	return e, nil
}

func (e *echo) wait(d time.Duration) bool {
	e.timer.Reset(d)
	_, err := e.reader.Read(e.received[:])
	return err == nil
}

func (e *echo) close() {
	e.timer.Stop()
	_, _ = e.reader.Close(), e.writer.Close() // a second close fails
}
