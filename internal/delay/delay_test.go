package delay

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWaitEndsWithItsTimeOrContext(t *testing.T) {
	if !Wait(context.Background(), 0) {
		t.Error("no time: false; want true")
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if Wait(ended, time.Hour) {
		t.Error("a context that has ended: true; want false")
	}
}

// Work is repeated after each interval, which a wake-up ends and the work itself does not
// shorten, and never once the context has ended.
func TestEveryRepeatsUntilItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		wake := make(chan struct{}, 1)
		begin := time.Now()
		var at []time.Duration
		Every(ctx, time.Second, wake, func() {
			at = append(at, time.Since(begin))
			switch len(at) {
			case 2:
				time.Sleep(3 * time.Second) // slow work
			case 3:
				wake <- struct{}{}
			case 4:
				cancel()
			}
		})
		if diff := cmp.Diff([]time.Duration{0, time.Second, 5 * time.Second, 5 * time.Second}, at); diff != "" {
			t.Errorf("times of the calls (-want +got):\n%s", diff)
		}
		Every(ctx, time.Second, nil, func() { t.Error("work after the end of the context") })
	})
}
