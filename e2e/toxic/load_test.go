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
	// envoysDeadline is what Envoy's rate limit filter gives a call, and
	// easyDeadline one that a busy machine can keep: beyond what Redis gets.
	envoysDeadline = 20 * time.Millisecond
	easyDeadline   = 300 * time.Millisecond
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

// asked is who is asked about, and what he may do in an hour.
type asked struct {
	who   string
	limit int64
}

// answer is what a caller is told.
type answer struct {
	admitted, degraded bool
	remaining          int64
}

// subject is who is asked: a store, or the service with one.
type subject interface {
	ask(context.Context, asked) (answer, error)
}

// theStore is a store that is asked without the service.
type theStore struct{ store.Store }

func (s theStore) ask(ctx context.Context, q asked) (answer, error) {
	var a store.Answers
	err := s.Evaluate(ctx, plan(q.who, q.limit), &a)
	if err != nil {
		return answer{}, err
	}
	return answer{admitted: a.Sets[0].Decider < 0, degraded: a.Degraded, remaining: a.Sets[0].Remaining}, nil
}

// load asks from several callers until stop is called.
type load struct {
	subject  subject
	deadline time.Duration // what each call is given
	cancel   context.CancelFunc
	group    sync.WaitGroup

	admitted atomic.Int64 // of the limited identity
	mistaken atomic.Int64 // answers to another question than was asked
	mu       sync.Mutex
	calls    []call
	faults   map[string]int
	alone    map[int]call // those about identities of their own, by number
}

// call is what became of one call.
type call struct {
	begin    time.Time
	took     time.Duration
	degraded bool
	failed   bool
}

func newLoad(s subject, deadline time.Duration) *load {
	l := &load{subject: s, deadline: deadline, faults: make(map[string]int), alone: make(map[int]call)}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	for n := range callers {
		l.group.Go(func() {
			for i := n; ctx.Err() == nil; i += callers {
				l.take(i) //nolint:contextcheck // a call under way is waited for
				select {
				case <-ctx.Done():
				case <-time.After(2 * time.Millisecond):
				}
			}
		})
	}
	return l
}

// limit is that of the one identity that all callers take from; others have as
// good as none.
const (
	limit   = 100
	noLimit = 1_000_000
)

// take makes call number i: every second round of callers takes from the one
// identity, the others each from one of its own, and the answer to that is
// known.
func (l *load) take(i int) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	q := asked{"limited", limit}
	alone := i/callers%2 == 0
	if alone {
		q = asked{fmt.Sprintf("u%d", i), noLimit}
	}
	begin := time.Now()
	a, err := l.subject.ask(hurried{ctx, begin.Add(l.deadline)}, q)
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
		l.faults[err.Error()]++
	}
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

// end is when the call was over.
func (c *call) end() time.Time { return c.begin.Add(c.took) }

// figures are what some of the calls came to.
type figures struct {
	calls, late, degraded int
	failed                int
	slowest               time.Duration // of all but one in a thousand
	deadline              time.Duration // after which they are late
}

// sum sums up the calls that are among those.
func (l *load) sum(among func(*call) bool) figures {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := figures{deadline: l.deadline}
	var took []time.Duration
	for i := range l.calls {
		c := &l.calls[i]
		if !among(c) {
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

// failed is how many calls had no answer.
func (l *load) failed() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, times := range l.faults {
		n += times
	}
	return n
}

// plus is the sum of two times, but for the slowest.
func (f figures) plus(g figures) figures {
	return figures{calls: f.calls + g.calls, late: f.late + g.late, degraded: f.degraded + g.degraded, failed: f.failed + g.failed, slowest: max(f.slowest, g.slowest), deadline: g.deadline}
}

func (f figures) String() string {
	if f.calls == 0 {
		return "no calls"
	}
	return fmt.Sprintf("%d calls, %d without an answer, %.2f %% later than %v, p99.9 %.1f ms", f.calls, f.failed, 100*float64(f.late)/float64(f.calls), f.deadline, float64(f.slowest.Microseconds())/1000)
}
