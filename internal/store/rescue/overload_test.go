package rescue_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/rescue"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// TestOverloadGivesNoFreshLimits has far more callers, with the deadlines of a
// gateway, than this process has CPU for: many calls run out of time although
// Redis answers at once. No identity is admitted more often than its limit, and
// Redis is not left. A machine may stop Redis itself for longer than a deadline;
// then Redis is rightly left, and the test is repeated.
func TestOverloadGivesNoFreshLimits(t *testing.T) {
	server := storetest.StartServer(t)
	for _, c := range []struct {
		callers  int
		deadline time.Duration
	}{{400, 20 * time.Millisecond}, {800, 11 * time.Millisecond}} {
		t.Run(fmt.Sprintf("%d callers with %v", c.callers, c.deadline), func(t *testing.T) {
			round := 0
			storetest.Eventually(t, func() error {
				round++
				o := overload{callers: c.callers, deadline: c.deadline, prefix: fmt.Sprint(c.callers, "-", round)}
				o.run(t, server.URL())
				t.Logf("round %d: %d calls, %d in process, Redis left %d times", round, o.calls.Load(), o.degraded.Load(), o.absences.Load())
				switch {
				case o.absences.Load() > 0:
					return fmt.Errorf("Redis was left %d times", o.absences.Load())
				case o.degraded.Load() == 0:
					return errors.New("no call ran out of time")
				}
				return nil
			})
		})
	}
}

// overload is a run of callers that use up limits, and continue.
type overload struct {
	callers  int
	deadline time.Duration
	prefix   string

	calls, degraded, absences atomic.Int64
}

func (o *overload) run(t *testing.T, url string) {
	t.Helper()
	const identities, limit, calls = 4, 500, 16_000
	r := storetest.OpenRescue(t, redis.Options{URL: url, Prefix: "overload" + o.prefix}, rescue.Options{OnChange: func(s rescue.State) {
		if s.Degraded {
			o.absences.Add(1)
		}
	}})
	var admitted [identities]atomic.Int64
	var callers sync.WaitGroup
	for n := range o.callers {
		callers.Go(func() {
			for i := n; o.calls.Add(1) <= calls; i++ {
				if o.take(t, r, fmt.Sprint("u", i%identities), limit) {
					admitted[i%identities].Add(1)
				}
			}
		})
	}
	callers.Wait()
	for i := range admitted {
		if n := admitted[i].Load(); n > limit && o.absences.Load() == 0 {
			t.Errorf("identity %d was admitted %d times; want at most %d", i, n, limit)
		}
	}
}

// take takes one hit, and occupies a CPU for as long as a gateway's request does.
func (o *overload) take(t *testing.T, r *rescue.Store, subject string, limit int64) bool {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	begin := time.Now()
	var a store.Answers
	p := oneCount(subject, limit)
	if err := r.Evaluate(waits{ctx, begin.Add(o.deadline)}, p, &a); err != nil {
		t.Error(err)
		return false
	}
	if a.Degraded {
		o.degraded.Add(1)
	}
	occupy()
	return p.Allowed(&a)
}

// occupy uses a CPU for some ten microseconds.
func occupy() {
	sum := 0
	for i := range 50_000 {
		sum += i * sum
	}
	occupied.Store(int64(sum))
}

var occupied atomic.Int64
