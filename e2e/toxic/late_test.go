package toxic

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/rescue"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// Redis takes about as long as the callers' deadline: some answers are in time and
// some too late. No answer reaches another caller, and answered calls are counted
// exactly: a call that timed out may have been counted, once.
func TestAnswersAfterTheDeadline(t *testing.T) {
	storetest.InWays(t, storetest.Ways(*long), answersAfterTheDeadline)
}

func answersAfterTheDeadline(t *testing.T, way storetest.Way) {
	// What a busy machine adds to the latency matters little to these.
	const patient, latency, jitter = 100 * time.Millisecond, 60, 55
	s := newScene(t)
	r := open(t, s.url(), way)
	l := newLoad(observedStore{directStore{r}, r}, patient)
	defer l.stop()
	for begin := time.Now(); time.Since(begin) < 3*patience; {
		if answered, given := l.outcomes(); time.Since(begin) > 2*time.Second && answered > 60 && given > 60 {
			break // which shows enough
		}
		s.poison("latency", fmt.Sprintf(`"latency":%d,"jitter":%d`, latency, jitter))
		time.Sleep(400 * time.Millisecond)
		s.cure() // otherwise all calls would soon be decided in process
		time.Sleep(100 * time.Millisecond)
	}
	l.stop()
	s.cure()
	waitUntil(t, observedStore{directStore{r}, r}, false)

	inTime, late := 0, 0
	direct := directStore{storetest.OpenRescue(t, redis.Options{URL: s.redis.URL(), Budget: patience}, rescue.Options{})}
	for i, c := range l.alone {
		a, err := direct.take(context.Background(), request{fmt.Sprintf("u%d", i), noLimit})
		if err != nil || a.degraded {
			t.Fatalf("a call of Redis without the proxy: degraded %t, %v", a.degraded, err)
		}
		counted := noLimit - 1 - a.remaining // before this call
		switch {
		case c.degraded:
			late++
			if counted > 1 {
				t.Errorf("%d hits are counted for a call that timed out; want at most 1", counted)
			}
		default:
			inTime++
			if counted != 1 {
				t.Errorf("%d hits are counted for a call that Redis answered; want 1", counted)
			}
		}
	}
	t.Logf("%d calls were answered in time and %d late", inTime, late)
	if inTime < 20 || late < 20 {
		t.Errorf("%d calls were answered in time and %d late; want at least 20 each", inTime, late)
	}
	if n := l.mistaken.Load(); n != 0 {
		t.Errorf("%d calls got the answer to another call", n)
	}
	if len(l.errors) != 0 {
		t.Errorf("calls were not decided: %v", l.errors)
	}
}

// outcomes returns how many calls with their own identity Redis has answered so far,
// and how many timed out.
func (l *load) outcomes() (answered, late int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.alone {
		if c.degraded {
			late++
		} else {
			answered++
		}
	}
	return answered, late
}
