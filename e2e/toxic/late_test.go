package toxic

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/koalagate/koalagate/store/storetest"
)

// Redis is about as slow as callers are patient: some of its answers come in
// time and some too late. None reaches another caller, and what was answered is
// what was counted: a call that was given up may have been counted, once.
func TestAnswersAfterTheDeadline(t *testing.T) {
	storetest.InWays(t, storetest.Ways(*long), answersAfterTheDeadline)
}

func answersAfterTheDeadline(t *testing.T, way storetest.Way) {
	s := newScene(t)
	r := open(t, s.url(), way)
	l := newLoad(observedStore{theStore{r}, r})
	defer l.stop()
	for begin := time.Now(); time.Since(begin) < 2*time.Second; {
		s.poison("latency", `"latency":9,"jitter":8`)
		time.Sleep(400 * time.Millisecond)
		s.cure() // or all calls would be decided in process soon
		time.Sleep(100 * time.Millisecond)
	}
	l.stop()
	s.cure()
	until(t, observedStore{theStore{r}, r}, false)

	inTime, given := 0, 0
	for i, c := range l.alone {
		a, err := l.subject.ask(context.Background(), asked{fmt.Sprintf("u%d", i), noLimit})
		if err != nil {
			t.Fatal(err)
		}
		counted := noLimit - 1 - a.remaining // before this look
		switch {
		case a.degraded: // on a busy machine
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
