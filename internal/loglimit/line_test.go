package loglimit_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/koalagate/koalagate/internal/loglimit"
)

func TestLineIsDueOncePerInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var line loglimit.Line
		for second := range 25 {
			skipped, due := line.Due()
			wantSkipped, wantDue := int64(0), second%10 == 0
			if wantDue && second > 0 {
				wantSkipped = 9
			}
			if skipped != wantSkipped || due != wantDue {
				t.Errorf("second %d: due %v, skipped %d; want %v, %d", second, due, skipped, wantDue, wantSkipped)
			}
			time.Sleep(time.Second)
		}
	})
}

// Of concurrent callers one gets the line, and the others are counted.
func TestConcurrentCallersGetOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var line loglimit.Line
		var logged, total atomic.Int64
		var callers sync.WaitGroup
		for range 50 {
			callers.Go(func() {
				if skipped, due := line.Due(); due {
					logged.Add(1)
					total.Add(skipped) // calls while it was logged
				}
			})
		}
		callers.Wait()
		time.Sleep(loglimit.Every)
		skipped, due := line.Due()
		if total.Add(skipped); logged.Load() != 1 || total.Load() != 49 || !due {
			t.Errorf("logged %d times, then due %v, with %d skipped; want once, and due with 49", logged.Load(), due, total.Load())
		}
	})
}
