package rescue

import (
	"math/rand/v2"
	"time"

	"github.com/koalagate/koalagate/internal/store/redisconn"
)

const (
	// probeEvery is the mean time between checks of Redis during an absence.
	// Each wait is up to a quarter longer or shorter, so that many instances do
	// not check, and return, in step.
	probeEvery = 100 * time.Millisecond
	// stageTime is the length of each stage of the return: after the first
	// successful check one call in 16 goes to Redis, then one in 8, and so on. A
	// Redis that has just started need not take all calls at once, and one that
	// cannot take them is left again before most calls had to wait.
	stageTime = 25 * time.Millisecond
	// settled is the number of consecutive checks that must find a new fault
	// before it is reported.
	settled = 3
)

// probe checks Redis while it is unreachable and sleeps otherwise. It ends with
// Close.
func (s *Store) probe() {
	defer close(s.ended)
	var forget <-chan time.Time
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-forget:
			s.local.ForgetCounted()
			forget = nil
		case <-s.wake:
			for !s.find() {
				if s.ctx.Err() != nil {
					return
				}
			}
			forget = time.After(forgetAfter)
		}
	}
}

// find checks Redis until it answers and lets the calls return to it. It reports
// whether all of them have.
func (s *Store) find() bool {
	fault, seen := "", 0
	for s.pause(time.After(probeEvery*3/4 + rand.N(probeEvery/2))) { //nolint:gosec // to be out of step needs no secrets
		err := s.shared.Check(s.ctx)
		if err == nil {
			return s.comeBack()
		}
		if remedy := redisconn.Remedy(err); remedy != fault {
			fault, seen = remedy, 0
		}
		seen++
		s.stillUnreachable(err, seen >= settled)
	}
	return false
}

// comeBack lets more and more calls go to Redis, until all do. It reports
// whether all do: Redis may fail again meanwhile.
func (s *Store) comeBack() bool {
	absences, _ := s.gate.load()
	for share := uint32(1); share < everyCall; share *= 2 {
		if !s.gate.widen(absences, share) || !s.pause(s.stage()) {
			return false
		}
	}
	return s.back(absences)
}

// pause waits for end, and reports whether it came before Close.
func (s *Store) pause(end <-chan time.Time) bool {
	select {
	case <-s.ctx.Done():
		return false
	case <-end:
		return true
	}
}

// stillUnreachable records the error of a check; confirmed reports that the
// checks before it found the same fault. A new fault is reported once.
func (s *Store) stillUnreachable(err error, confirmed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Err = err
	if remedy := redisconn.Remedy(err); confirmed && !s.reported[remedy] {
		s.reported[remedy] = true
		s.reportChange()
	}
}

// back ends the absence: every call goes to Redis again. It reports whether it
// did: Redis may have failed again.
func (s *Store) back(absences uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.gate.widen(absences, everyCall) {
		return false
	}
	s.state.Degraded, s.state.Since = false, time.Now()
	s.reportChange()
	return true
}
