package rescue_test

import (
	"context"
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

// overloadRounds is how often a run is repeated that shows nothing.
const overloadRounds = 40

// TestOverloadGivesNoFreshLimits has far more callers, with the deadlines of a
// gateway, than this process has CPU for: many calls run out of time although
// Redis answers at once. No identity is admitted more often than its limit, and
// Redis is not left. A machine may stop Redis itself for longer than a deadline;
// then Redis is rightly left, and the run is repeated.
func TestOverloadGivesNoFreshLimits(t *testing.T) {
	server := storetest.StartServer(t)
	limit := int64(200)
	if *long {
		limit = 500
	}
	for _, c := range []struct {
		callers  int
		deadline time.Duration
	}{{400, 20 * time.Millisecond}, {800, 11 * time.Millisecond}} {
		t.Run(fmt.Sprintf("%d callers with %v", c.callers, c.deadline), func(t *testing.T) {
			for round := range overloadRounds {
				o := overload{callers: c.callers, deadline: c.deadline, limit: limit, prefix: fmt.Sprint(c.callers, "-", round)}
				o.run(t, server.URL())
				t.Logf("round %d: %d calls, %d in process, Redis left %d times", round, o.calls.Load(), o.degraded.Load(), o.absences.Load())
				if o.absences.Load() == 0 && o.degraded.Load() > 0 {
					return
				}
			}
			t.Errorf("in each of %d rounds Redis was left, or no call ran out of time", overloadRounds)
		})
	}
}

// overload is a run of callers that use up limits, and continue.
type overload struct {
	callers  int
	deadline time.Duration
	limit    int64
	prefix   string

	calls, degraded, absences atomic.Int64
}

func (o *overload) run(t *testing.T, url string) {
	t.Helper()
	const identities = 4
	calls := 8 * identities * o.limit
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
				if o.take(t, r, fmt.Sprint("u", i%identities)) {
					admitted[i%identities].Add(1)
				}
			}
		})
	}
	callers.Wait()
	for i := range admitted {
		if n := admitted[i].Load(); n > o.limit && o.absences.Load() == 0 {
			t.Errorf("identity %d was admitted %d times; want at most %d", i, n, o.limit)
		}
	}
}

// take takes one hit, and occupies a CPU for as long as a gateway's request does.
func (o *overload) take(t *testing.T, r *rescue.Store, subject string) bool {
	begin := time.Now()
	var a store.Answers
	p := oneCount(subject, o.limit)
	if err := r.Evaluate(waits{context.Background(), begin.Add(o.deadline)}, p, &a); err != nil {
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
