package lease_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/lease"
	"github.com/koalagate/koalagate/internal/store/memory"
)

// failing is a lessor that grants what is asked for, until it hangs: then it fails after
// longer than parts last.
type failing struct {
	hangs    atomic.Bool
	requests atomic.Int64
}

const shortTime = time.Second

func (f *failing) Lease(_ context.Context, l *store.Lease) (store.Grant, error) {
	if f.hangs.Load() {
		f.requests.Add(1)
		<-time.After(2 * shortTime)
		return store.Grant{}, errors.New("no answer")
	}
	return store.Grant{Era: 1, Ends: l.Lasts, Granted: l.Ask, Remaining: 1000, Reset: 3_600_000}, nil
}

// TestCloseDoesNotWaitForEachPart closes a store with many parts while Redis hangs: once
// the parts have ended, no further request begins.
func TestCloseDoesNotWaitForEachPart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		next := memory.New(memory.Options{})
		defer next.Close()
		shared, clock := new(failing), func() time.Duration { return time.Hour }
		s := lease.New(next, shared, lease.Options{Time: shortTime, Clock: clock})
		const parts = 500
		var a store.Answers
		for i := range parts {
			rule := store.Rule{Subject: fmt.Appendf(nil, "s%d", i), Return: 1, Method: store.Count, Time: 3600, Count: 100_000, Lease: 200, Weight: 1}
			for range 4 {
				if err := s.Evaluate(context.Background(), take(rule), &a); err != nil {
					t.Fatal(err)
				}
			}
		}
		synctest.Wait() // for the grants
		if held := s.Stats().Held; held < 4*parts {
			t.Fatalf("%+v; want %d hits held", s.Stats(), 4*parts)
		}
		shared.hangs.Store(true)
		begin := time.Now()
		s.Close()
		if n := shared.requests.Load(); n == 0 || n > parts/2 {
			t.Errorf("%d requests for %d parts", n, parts)
		}
		if took := time.Since(begin); took != 2*shortTime {
			t.Errorf("Close took %v; want the time of one request, %v", took, 2*shortTime)
		}
		if stats := s.Stats(); stats.Held != 0 || stats.Granted != stats.Spent+stats.Returned+stats.Lost {
			t.Errorf("not all hits are accounted for: %+v", stats)
		}
	})
}
