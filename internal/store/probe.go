package store

import (
	"math/rand/v2"
	"time"
)

const (
	// probeEvery is about how often Redis is looked for while it is away. Each
	// wait is up to a quarter longer or shorter, so that many instances do not
	// look, and come back, in step.
	probeEvery = 100 * time.Millisecond
	// stageFor is how long each stage of the return lasts: after the first
	// probe that Redis answers one call in 16 asks it, then one in 8, and so on.
	// A Redis that has just started need not take all calls at once, and one
	// that cannot take them is left alone again before most were kept waiting.
	stageFor = 25 * time.Millisecond
	// settled is how many probes in a row have to find a new fault before it
	// is told of.
	settled = 3
)

// probe looks for Redis while it is away, sleeps while it is there, and ends
// with Close.
func (r *Rescue) probe() {
	defer close(r.ended)
	var forget <-chan time.Time
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-forget:
			r.memory.clearCounted()
			forget = nil
		case <-r.wake:
			for !r.find() {
				if r.ctx.Err() != nil {
					return
				}
			}
			forget = time.After(forgetAfter)
		}
	}
}

// find looks for Redis until it answers, and lets the calls return to it. It
// tells whether they all have.
func (r *Rescue) find() bool {
	fault, seen := "", 0
	for r.pause(time.After(probeEvery*3/4 + rand.N(probeEvery/2))) { //nolint:gosec // to be out of step needs no secrets
		err := r.redis.Check(r.ctx)
		if err == nil {
			return r.comeBack()
		}
		if remedy := Remedy(err); remedy != fault {
			fault, seen = remedy, 0
		}
		seen++
		r.stillAway(err, seen >= settled)
	}
	return false
}

// comeBack lets more and more calls ask Redis, until all do. It tells whether
// they do: Redis may go again.
func (r *Rescue) comeBack() bool {
	absences, _ := r.gate.look()
	for share := uint32(1); share < everyCall; share *= 2 {
		if !r.gate.widen(absences, share) || !r.pause(r.stage()) {
			return false
		}
	}
	return r.back(absences)
}

// pause waits for the end, and tells whether it came before that of r.
func (r *Rescue) pause(end <-chan time.Time) bool {
	select {
	case <-r.ctx.Done():
		return false
	case <-end:
		return true
	}
}

// stillAway notes with what a probe has found Redis away; settled tells that
// the probes before it found the same.
func (r *Rescue) stillAway(err error, settled bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.Err = err
	if remedy := Remedy(err); settled && !r.told[remedy] {
		r.told[remedy] = true
		r.tell()
	}
}

// back notes that every call asks Redis again. It tells whether that is so:
// Redis may have gone again.
func (r *Rescue) back(absences uint32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.gate.widen(absences, everyCall) {
		return false
	}
	r.state.Degraded, r.state.Since = false, time.Now()
	r.tell()
	return true
}
