package rescue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/redisconn"
	"github.com/koalagate/koalagate/internal/store/remote"
	"github.com/koalagate/koalagate/internal/store/rescue"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// used returns rules whose limits are used up before an incident: every admission
// by Redis afterwards is one too many.
func used(subject string) []store.Rule {
	return []store.Rule{
		{Subject: []byte(subject), Return: 1, Method: store.Count, Weight: 1, Time: 3600, Count: 3},
		{Subject: []byte(subject), Return: 2, Method: store.Leak, Weight: 1, Time: 3600, Count: 3},
	}
}

// load calls a rescue store continuously, with the deadlines of Envoy.
type load struct {
	subjects []string
	store    *rescue.Store
	calls    atomic.Int64
	faults   atomic.Int64 // calls without an answer
	late     atomic.Int64 // answers after the deadline, or none
	began    atomic.Int64 // start of the last change, in ms; 0 for never
	lateThen atomic.Int64 // late answers to calls more than a second after it
	degraded atomic.Int64 // answers of the in-process store
	tooMany  atomic.Int64 // admissions by Redis
	stop     chan struct{}
	callers  sync.WaitGroup

	mu       sync.Mutex
	remedies []string // of the reported faults
}

// envoyWaits is the default timeout of Envoy's filters. Tests wait longer, because
// they run under the race detector and on busy machines.
const envoyWaits = 20 * time.Millisecond

// startLoad uses up the limits of all subjects, and then keeps calling. Of a store
// that remembers refusals, only calls within the limits and the first call of each
// second and subject reach Redis.
func startLoad(t *testing.T, r remote.Store) *load {
	t.Helper()
	memory := memory.New(memory.Options{})
	l := &load{stop: make(chan struct{})}
	l.store = rescue.New(r, memory, rescue.Options{OnChange: l.changed})
	for i := range 30 {
		l.subjects = append(l.subjects, fmt.Sprintf("s%d", i))
	}
	for _, s := range l.subjects {
		storetest.Eventually(t, func() error { // a call may exceed the budget
			var a store.Answers
			if err := r.Evaluate(context.Background(), plan1(s), &a); err != nil {
				return err
			}
			if a.Sets[0].Decider < 0 {
				return fmt.Errorf("%s has hits left", s)
			}
			return nil
		})
	}
	for c := range 4 {
		l.callers.Go(func() { l.run(c) })
	}
	t.Cleanup(func() {
		l.end()
		l.store.Close()
		memory.Close()
	})
	return l
}

// waits is the context of a caller that waits beyond its deadline. If the machine
// stalls while the deadline passes, the store cannot answer in time, and the answer
// is late, not missing.
type waits struct {
	context.Context // ends when the caller gives up
	deadline        time.Time
}

func (w waits) Deadline() (time.Time, bool) { return w.deadline, true }

// changed records the remedy of a reported fault.
func (l *load) changed(s rescue.State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.Degraded {
		l.remedies = append(l.remedies, redisconn.Remedy(s.Err))
	}
}

// reported reports whether a fault with the remedy was reported since the last
// call.
func (l *load) reported(remedy string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	remedies := l.remedies
	l.remedies = nil
	return slices.ContainsFunc(remedies, func(one string) bool { return strings.Contains(one, remedy) })
}

func plan1(subject string) *store.Plan {
	return &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: used(subject)}}}
}

// run calls the store until the load ends.
func (l *load) run(n int) {
	var a store.Answers
	for i := n; ; i++ {
		select {
		case <-l.stop:
			return
		case <-time.After(time.Millisecond):
		}
		begin := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		p, writes := plan1(l.subjects[i%len(l.subjects)]), i%5 == 0
		if writes { // a refused take writes nothing
			p = plan1("free")
			for j := range p.Sets[0].Rules {
				p.Sets[0].Rules[j].Count = 1 << 30
			}
		}
		err := l.store.Evaluate(waits{ctx, begin.Add(5 * envoyWaits)}, p, &a)
		cancel()
		l.calls.Add(1)
		switch {
		case err != nil:
			l.faults.Add(1)
		case a.Degraded:
			l.degraded.Add(1)
		case a.Sets[0].Decider < 0 && !writes:
			l.tooMany.Add(1)
		}
		if time.Since(begin) > 5*envoyWaits {
			l.late.Add(1)
			if began := l.began.Load(); began != 0 && begin.UnixMilli() > began+1000 {
				l.lateThen.Add(1)
			}
		}
	}
}

// change records that a change to Redis begins.
func (l *load) change() { l.began.Store(time.Now().UnixMilli()) }

func (l *load) end() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.callers.Wait()
}

// back waits until Redis answers for every subject again, and returns how long that
// took.
func (l *load) back(t *testing.T) time.Duration {
	t.Helper()
	begin := time.Now()
	storetest.Eventually(t, func() error {
		for _, s := range l.subjects {
			p := plan1(s)
			for _, p.Op = range []store.Op{store.Take, store.Browse} { // the first may be answered from memory
				var a store.Answers
				if err := l.store.Evaluate(context.Background(), p, &a); err != nil {
					return err
				}
				if a.Degraded {
					return errors.New("the in-process store still answers")
				}
			}
		}
		return nil
	})
	return time.Since(begin)
}

// judge ends the load and checks the answers that its callers received.
func (l *load) judge(t *testing.T) {
	t.Helper()
	storetest.Eventually(t, func() error {
		if calls := l.calls.Load(); calls < 100 {
			return fmt.Errorf("%d calls; want 100 or more", calls)
		}
		return nil
	})
	l.end()
	t.Logf("%d calls: %d without an answer, %d answered late, %d in process, %d admitted by Redis beyond the limits",
		l.calls.Load(), l.faults.Load(), l.late.Load(), l.degraded.Load(), l.tooMany.Load())
	if l.faults.Load() > 0 || l.tooMany.Load() > 0 {
		t.Errorf("want every call answered, and none admitted beyond the limits")
	}
	// A few late answers are accepted: the machine may stall for as long as a
	// deadline.
	if calls := l.calls.Load(); *long && (l.late.Load()*100 > calls || l.lateThen.Load()*1000 > calls) {
		t.Errorf("%d answers were late more than a second after a change; want at most 1 in 1000 then, and 1 in 100 in all", l.lateThen.Load())
	}
}

// TestSentinelFailover kills the master under load. The Sentinels promote a
// replica, and counting continues there.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	storetest.InWays(t, storetest.Ways(*long), func(t *testing.T, way storetest.Way) {
		replicas := 1
		if *long {
			replicas = 2
		}
		w := storetest.StartSentinels(t, 3, replicas, "")
		o := redis.Options{URL: w.URL(), Budget: 5 * envoyWaits}
		way.Set(&o)
		r, err := remote.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		storetest.Eventually(t, func() error { return r.Check(context.Background()) })
		l := startLoad(t, r)
		w.Master.MustDo("WAIT", replicas, 5000)
		l.change()
		w.Master.Kill()
		t.Logf("back on Redis %v after the master was killed", l.back(t).Round(time.Millisecond))
		l.judge(t)
	})
}

// TestClusterFailover lets a replica take over under load, and then kills a master.
func TestClusterFailover(t *testing.T) {
	t.Parallel()
	storetest.InWays(t, storetest.Ways(*long), func(t *testing.T, way storetest.Way) {
		c := storetest.StartCluster(t, 3, true)
		r := c.Open(t, redis.Options{Budget: 5 * envoyWaits}, way)
		l := startLoad(t, r)
		for _, n := range c.Nodes[:3] {
			n.MustDo("WAIT", 1, 5000)
		}
		rounds := 1
		if *long {
			rounds = 5
		}
		for i := range rounds {
			// A replica of the first master takes over, or hands back.
			l.change()
			c.TakeOver(c.Nodes[3*((i+1)%2)], 0)
			l.back(t)
		}
		planned := l.degraded.Load()
		t.Logf("%d of %d answers in process while a replica took over %d times", planned, l.calls.Load(), rounds)
		l.change()
		c.Nodes[1].Kill()
		t.Logf("back on Redis %v after a master was killed", l.back(t).Round(time.Millisecond))
		l.judge(t)
	})
}
