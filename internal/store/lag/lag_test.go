package lag

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestLateness checks the sum of lateness after wake-ups that are late, and
// while one is overdue.
func TestLateness(t *testing.T) {
	now, wakeups, observed := time.Unix(0, 0), make(chan time.Time), make(chan time.Duration)
	p := New(func(d time.Duration) { observed <- d }, func() bool { return true })
	p.now = func() time.Time { return now }
	p.open = func() (waiter, error) { return fakeWaiter{wakeups, make(chan struct{}, 2)}, nil }
	defer p.Close()
	late := func(want time.Duration) {
		t.Helper()
		if got := p.Late(); got != want {
			t.Errorf("late by %v; want %v", got, want)
		}
	}
	late(0)
	for _, c := range []struct {
		name          string
		passes        time.Duration // until the wake-up
		overdue, then time.Duration // the sum before it and after it
	}{
		{"in time", period, 0, 0},
		{"a little late", period + tolerance, 0, 0},
		{"late", period + 30*time.Millisecond, 30 * time.Millisecond, 30 * time.Millisecond},
		{"in time after that", period, 30 * time.Millisecond, 30 * time.Millisecond},
		{"late again", period + 5*time.Millisecond, 35 * time.Millisecond, 35 * time.Millisecond},
	} {
		now = now.Add(c.passes)
		late(c.overdue)
		wakeups <- now
		if got := <-observed; got != c.passes-period {
			t.Errorf("%s: observed %v; want %v", c.name, got, c.passes-period)
		}
		late(c.then)
	}
}

// TestProbeRestsWhileUnused checks that a probe wakes up while it is busy, that an unused one
// stops, and that its rest is not lateness.
func TestProbeRestsWhileUnused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wakeups atomic.Int64
		var busy atomic.Bool
		busy.Store(true)
		p := New(func(time.Duration) { wakeups.Add(1) }, busy.Load)
		p.open = func() (waiter, error) { return fakeWaiter{nil, make(chan struct{}, 2)}, nil }
		defer p.Close()
		p.Late()
		time.Sleep(time.Second)
		synctest.Wait()
		if got, least := wakeups.Swap(0), int64(time.Second/period)-1; got < least {
			t.Errorf("%d wake-ups in a busy second; want at least %d", got, least)
		}
		busy.Store(false)
		time.Sleep(time.Hour)
		synctest.Wait()
		if most := int64(idle/period) + 1; wakeups.Load() == 0 || wakeups.Load() > most {
			t.Errorf("%d wake-ups once nobody needs them; want 1 … %d", wakeups.Load(), most)
		}
		if got := p.Late(); got != 0 {
			t.Errorf("late by %v after a pause; want 0", got)
		}
		before := wakeups.Load()
		time.Sleep(10 * period)
		synctest.Wait()
		if wakeups.Load() == before {
			t.Error("the probe did not wake up again")
		}
	})
}

// fakeWaiter waits for the test, or for the time of a synctest bubble.
type fakeWaiter struct {
	wakeups chan time.Time
	closed  chan struct{}
}

func (w fakeWaiter) wait(d time.Duration) bool {
	var after <-chan time.Time = w.wakeups
	if after == nil {
		after = time.After(d)
	}
	select {
	case <-w.closed:
		return false
	case <-after:
		return true
	}
}

func (w fakeWaiter) close() { w.closed <- struct{}{} }

// TestEcho checks that the pipe wakes the probe, again after a rest, and that Close ends it at
// any time.
func TestEcho(t *testing.T) {
	for i := range 100 {
		observed := make(chan time.Duration, 1)
		p := New(func(d time.Duration) {
			select {
			case observed <- d:
			default:
			}
		}, func() bool { return i%2 == 0 })
		for range 2 { // an idle probe may rest after each observation
			p.Late()
			<-observed
		}
		p.Close()
		if p.Late() < 0 {
			t.Error("lateness is negative")
		}
	}
}
