package toxic

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// Redis is about as slow as callers are patient: some of its answers come in
// time and some too late. None reaches another caller, and what was answered is
// what was counted: a call that was given up may have been counted, once.
func TestAnswersAfterTheDeadline(t *testing.T) {
	storetest.InWays(t, storetest.Ways(*long), answersAfterTheDeadline)
}

func answersAfterTheDeadline(t *testing.T, way storetest.Way) {
	// What a busy machine adds to the latency matters little to these.
	const patient, latency, jitter = 100 * time.Millisecond, 60, 55
	s := newScene(t)
	r := open(t, s.url(), way)
	l := newLoad(observedStore{theStore{r}, r}, patient)
	defer l.stop()
	for begin := time.Now(); time.Since(begin) < 3*patience; {
		if answered, given := l.alike(); time.Since(begin) > 2*time.Second && answered > 60 && given > 60 {
			break // which shows enough
		}
		s.poison("latency", fmt.Sprintf(`"latency":%d,"jitter":%d`, latency, jitter))
		time.Sleep(400 * time.Millisecond)
		s.cure() // or all calls would be decided in process soon
		time.Sleep(100 * time.Millisecond)
	}
	l.stop()
	s.cure()
	until(t, observedStore{theStore{r}, r}, false)

	inTime, given := 0, 0
	looks := theStore{storetest.OpenRescue(t, store.RedisOptions{URL: s.redis.URL(), Budget: patience}, store.RescueOptions{})}
	for i, c := range l.alone {
		a, err := looks.ask(context.Background(), asked{fmt.Sprintf("u%d", i), noLimit})
		if err != nil || a.degraded {
			t.Fatalf("a look at Redis, without the proxy: degraded %t, %v", a.degraded, err)
		}
		counted := noLimit - 1 - a.remaining // before this look
		switch {
		case c.degraded:
			given++
			if counted > 1 {
				t.Errorf("%d hits are counted of a call that was given up; want 1 at most", counted)
			}
		default:
			inTime++
			if counted != 1 {
				t.Errorf("%d hits are counted of a call that Redis answered; want 1", counted)
			}
		}
	}
	t.Logf("%d calls were answered in time and %d given up", inTime, given)
	if inTime < 20 || given < 20 {
		t.Errorf("%d calls were answered in time and %d given up; want 20 of both, to show anything", inTime, given)
	}
	if n := l.mistaken.Load(); n != 0 {
		t.Errorf("%d calls got an answer that is not theirs", n)
	}
	if len(l.faults) != 0 {
		t.Errorf("calls were not decided: %v", l.faults)
	}
}

// alike are how many of the calls about identities of their own Redis has
// answered so far, and how many were given up.
func (l *load) alike() (answered, given int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.alone {
		if c.degraded {
			given++
		} else {
			answered++
		}
	}
	return answered, given
}
