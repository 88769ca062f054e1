package toxic

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/koalagate/koalagate/store"
)

const (
	// deadline is what Envoy's rate limit filter gives a call.
	deadline = 20 * time.Millisecond
	// patience is how long a call is really waited for: on a busy machine a
	// late answer is measured, and only a missing one is a failure.
	patience = 20 * time.Second
	callers  = 8
)

// hurried is the context of a call with a deadline that its caller does not
// keep to.
type hurried struct {
	context.Context
	deadline time.Time
}

// Deadline is what the call is told.
func (h hurried) Deadline() (time.Time, bool) { return h.deadline, true }

// load asks a store from several callers until stop is called.
type load struct {
	store  store.Store
	cancel context.CancelFunc
	group  sync.WaitGroup

	admitted atomic.Int64 // of the limited identity
	failed   atomic.Int64
	mu       sync.Mutex
	calls    []call
}

// call is what became of one call.
type call struct {
	begin    time.Time
	took     time.Duration
	degraded bool
}

func newLoad(s store.Store) *load {
	l := &load{store: s}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	for range callers {
		l.group.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				l.take(i)
				select {
				case <-ctx.Done():
				case <-time.After(2 * time.Millisecond):
				}
			}
		})
	}
	return l
}

// limit is that of the one identity that all callers take from.
const limit = 100

func (l *load) take(i int) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	begin := time.Now()
	var a store.Answers
	p := plan("limited", limit)
	if i%2 == 0 {
		p = plan(fmt.Sprintf("u%d", i), 1_000_000)
	}
	if err := l.store.Evaluate(hurried{ctx, begin.Add(deadline)}, p, &a); err != nil {
		l.failed.Add(1)
		return
	}
	took := time.Since(begin)
	if i%2 == 1 && a.Sets[0].Decider < 0 {
		l.admitted.Add(1)
	}
	l.mu.Lock()
	l.calls = append(l.calls, call{begin, took, a.Degraded})
	l.mu.Unlock()
}

func plan(who string, count int64) *store.Plan {
	return &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{
		{Subject: []byte(who), Return: 1, Method: store.Count, Time: 3600, Count: count, Weight: 1},
	}}}}
}

func (l *load) stop() {
	l.cancel()
	l.group.Wait()
}

// figures are what the calls of a time came to.
type figures struct {
	calls, late, degraded int
	slowest               time.Duration // of all but one in a thousand
}

// between sums up the calls that began in a time.
func (l *load) between(from, to time.Time) figures {
	l.mu.Lock()
	defer l.mu.Unlock()
	var f figures
	var took []time.Duration
	for _, c := range l.calls {
		if c.begin.Before(from) || !c.begin.Before(to) {
			continue
		}
		f.calls++
		took = append(took, c.took)
		if c.took > deadline {
			f.late++
		}
		if c.degraded {
			f.degraded++
		}
	}
	if slices.Sort(took); len(took) > 0 {
		f.slowest = took[(len(took)-1)*999/1000]
	}
	return f
}

func (f figures) String() string {
	if f.calls == 0 {
		return "no calls"
	}
	return fmt.Sprintf("%d calls, %.2f %% later than %v, p99.9 %.1f ms", f.calls, 100*float64(f.late)/float64(f.calls), deadline, float64(f.slowest.Microseconds())/1000)
}
