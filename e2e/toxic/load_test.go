package toxic

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/koalagate/koalagate/internal/store"
)

const (
	// envoyDeadline is the default of Envoy's rate limit filter, and easyDeadline
	// one that a busy machine can keep: it exceeds the Redis budget.
	envoyDeadline = 20 * time.Millisecond
	easyDeadline  = 300 * time.Millisecond
	// patience is the actual timeout of a call: a late answer on a busy machine is
	// measured, and only a missing one is a failure.
	patience = 20 * time.Second
	callers  = 8
)

// announced is the context of a call with a deadline that the caller does not
// enforce.
type announced struct {
	context.Context
	deadline time.Time
}

// Deadline returns the announced deadline.
func (h announced) Deadline() (time.Time, bool) { return h.deadline, true }

// request identifies the caller, and its limit per hour.
type request struct {
	identity string
	limit    int64
}

// answer is the result for a caller.
type answer struct {
	admitted, degraded bool
	remaining          int64
}

// subject is a store, or the service with a store.
type subject interface {
	take(context.Context, request) (answer, error)
}

// directStore is a store that is called without the service.
type directStore struct{ store.Store }

func (s directStore) take(ctx context.Context, q request) (answer, error) {
	var a store.Answers
	err := s.Evaluate(ctx, plan(q.identity, q.limit), &a)
	if err != nil {
		return answer{}, err
	}
	return answer{admitted: a.Sets[0].Decider < 0, degraded: a.Degraded, remaining: a.Sets[0].Remaining}, nil
}

// load makes calls from several callers until stop is called.
type load struct {
	subject  subject
	deadline time.Duration // of each call
	cancel   context.CancelFunc
	group    sync.WaitGroup

	admitted atomic.Int64 // of the limited identity
	mistaken atomic.Int64 // answers to other calls
	mu       sync.Mutex
	calls    []call
	errors   map[string]int
	alone    map[int]call // calls with their own identity, by number
}

// call is the result of one call.
type call struct {
	begin    time.Time
	took     time.Duration
	degraded bool
	failed   bool
}

func newLoad(s subject, deadline time.Duration) *load {
	l := &load{subject: s, deadline: deadline, errors: make(map[string]int), alone: make(map[int]call)}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	for n := range callers {
		l.group.Go(func() {
			for i := n; ctx.Err() == nil; i += callers {
				l.call(i) //nolint:contextcheck // a started call is completed
				select {
				case <-ctx.Done():
				case <-time.After(2 * time.Millisecond):
				}
			}
		})
	}
	return l
}

// limit is the limit of the identity shared by all callers; noLimit is that of the
// others, and never reached.
const (
	limit   = 100
	noLimit = 1_000_000
)

// call makes call number i. In every second round, the callers use the shared
// identity; in the others each call has its own, whose answer is known.
func (l *load) call(i int) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	q := request{"limited", limit}
	alone := i/callers%2 == 0
	if alone {
		q = request{fmt.Sprintf("u%d", i), noLimit}
	}
	begin := time.Now()
	a, err := l.subject.take(announced{ctx, begin.Add(l.deadline)}, q)
	took := time.Since(begin)
	switch {
	case err != nil:
	case alone && (a.remaining != noLimit-1 || !a.admitted):
		l.mistaken.Add(1)
	case !alone && a.admitted:
		l.admitted.Add(1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, call{begin, took, a.degraded, err != nil})
	if alone && err == nil {
		l.alone[i] = l.calls[len(l.calls)-1]
	}
	if err != nil {
		l.errors[err.Error()]++
	}
}

func plan(identity string, count int64) *store.Plan {
	return &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{
		{Subject: []byte(identity), Return: 1, Method: store.Count, Time: 3600, Count: count, Weight: 1},
	}}}}
}

func (l *load) stop() {
	l.cancel()
	l.group.Wait()
}

// end returns the time when the call ended.
func (c *call) end() time.Time { return c.begin.Add(c.took) }

// figures summarizes calls.
type figures struct {
	calls, late, degraded int
	failed                int
	slowest               time.Duration // except one in a thousand
	deadline              time.Duration // after which they are late
}

// sum summarizes the selected calls.
func (l *load) sum(selected func(*call) bool) figures {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := figures{deadline: l.deadline}
	var took []time.Duration
	for i := range l.calls {
		c := &l.calls[i]
		if !selected(c) {
			continue
		}
		f.calls++
		took = append(took, c.took)
		if c.took > l.deadline || c.failed {
			f.late++
		}
		if c.degraded {
			f.degraded++
		}
		if c.failed {
			f.failed++
		}
	}
	if slices.Sort(took); len(took) > 0 {
		f.slowest = took[(len(took)-1)*999/1000]
	}
	return f
}

// failed returns the number of calls without an answer.
func (l *load) failed() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, times := range l.errors {
		n += times
	}
	return n
}

// plus returns the sum of both, and the greater of the slowest.
func (f figures) plus(g figures) figures {
	return figures{calls: f.calls + g.calls, late: f.late + g.late, degraded: f.degraded + g.degraded, failed: f.failed + g.failed, slowest: max(f.slowest, g.slowest), deadline: g.deadline}
}

func (f figures) String() string {
	if f.calls == 0 {
		return "no calls"
	}
	return fmt.Sprintf("%d calls, %d without an answer, %.2f %% later than %v, p99.9 %.1f ms", f.calls, f.failed, 100*float64(f.late)/float64(f.calls), f.deadline, float64(f.slowest.Microseconds())/1000)
}
