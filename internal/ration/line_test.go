package ration_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/koalagate/koalagate/internal/ration"
)

func TestALineIsDueOnceAnInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var line ration.Line
		for second := range 25 {
			skipped, due := line.Due()
			wantUnsaid, wantDue := int64(0), second%10 == 0
			if wantDue && second > 0 {
				wantUnsaid = 9
			}
			if skipped != wantUnsaid || due != wantDue {
				t.Errorf("second %d: due %v, skipped %d; want %v, %d", second, due, skipped, wantDue, wantUnsaid)
			}
			time.Sleep(time.Second)
		}
	})
}

// Of those who come at the same time one tells it, and the others are counted.
func TestALineThatManyTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var line ration.Line
		var told, untold atomic.Int64
		var callers sync.WaitGroup
		for range 50 {
			callers.Go(func() {
				if skipped, due := line.Due(); due {
					told.Add(1)
					untold.Add(skipped) // of those that came while it was told
				}
			})
		}
		callers.Wait()
		time.Sleep(ration.Every)
		skipped, due := line.Due()
		if untold.Add(skipped); told.Load() != 1 || untold.Load() != 49 || !due {
			t.Errorf("told %d times, then due %v, with %d skipped; want once, and due with 49", told.Load(), due, untold.Load())
		}
	})
}
