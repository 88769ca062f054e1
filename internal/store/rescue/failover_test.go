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

// used are rules whose limits are used up before something happens: whoever is
// admitted by Redis afterwards, is one too many.
func used(subject string) []store.Rule {
	return []store.Rule{
		{Subject: []byte(subject), Return: 1, Method: store.Count, Weight: 1, Time: 3600, Count: 3},
		{Subject: []byte(subject), Return: 2, Method: store.Leak, Weight: 1, Time: 3600, Count: 3},
	}
}

// load asks a rescue store without a break, with the deadlines of Envoy.
type load struct {
	subjects []string
	store    *rescue.Store
	calls    atomic.Int64
	faults   atomic.Int64 // answers that the caller did not get
	late     atomic.Int64 // answers after the deadline, or none
	began    atomic.Int64 // when the last change began, in ms; 0 for never
	lateThen atomic.Int64 // those that were late more than a second after it
	degraded atomic.Int64 // answers of the in-process store
	tooMany  atomic.Int64 // admissions by Redis
	stop     chan struct{}
	callers  sync.WaitGroup

	mu   sync.Mutex
	told []string // what was to be done about each fault that was told of
}

// envoyWaits is how long Envoy's filters wait for an answer where nothing else
// is said. Tests under the race detector, on a machine that others use, wait
// longer.
const envoyWaits = 20 * time.Millisecond

// startLoad uses the limits of all subjects up, and then asks on: of a store that
// remembers refusals, about those that use up no limit, and each second anew.
func startLoad(t *testing.T, r remote.Store) *load {
	t.Helper()
	memory := memory.New(memory.Options{})
	l := &load{stop: make(chan struct{})}
	l.store = rescue.New(r, memory, rescue.Options{OnChange: l.changed})
	for i := range 30 {
		l.subjects = append(l.subjects, fmt.Sprintf("s%d", i))
	}
	for _, s := range l.subjects {
		storetest.Eventually(t, func() error { // a call may take longer than the budget
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
		l.callers.Go(func() { l.ask(c) })
	}
	t.Cleanup(func() {
		l.end()
		l.store.Close()
		memory.Close()
	})
	return l
}

// waits is a caller's time: the store has until its deadline, and is waited for
// beyond. Where a machine stands still while a deadline passes, the store cannot
// answer before it, and the answer is late, not missing.
type waits struct {
	context.Context // that ends with the caller's patience
	deadline        time.Time
}

func (w waits) Deadline() (time.Time, bool) { return w.deadline, true }

// changed notes what is told of.
func (l *load) changed(s rescue.State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.Degraded {
		l.told = append(l.told, redisconn.Remedy(s.Err))
	}
}

// wasToldOf tells whether something like it was to be done since the last call.
func (l *load) wasToldOf(remedy string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	told := l.told
	l.told = nil
	return slices.ContainsFunc(told, func(one string) bool { return strings.Contains(one, remedy) })
}

func plan1(subject string) *store.Plan {
	return &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: used(subject)}}}
}

func (l *load) ask(n int) {
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
		if writes { // what is refused is not written
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

// change notes that something is about to happen to Redis.
func (l *load) change() { l.began.Store(time.Now().UnixMilli()) }

func (l *load) end() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.callers.Wait()
}

// back waits until Redis has answered every subject again, and returns how long
// that took.
func (l *load) back(t *testing.T) time.Duration {
	t.Helper()
	begin := time.Now()
	storetest.Eventually(t, func() error {
		for _, s := range l.subjects {
			p := plan1(s)
			for _, p.Op = range []store.Op{store.Take, store.Browse} { // the first may be told from memory
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

// judge ends the load and looks at what its callers were told.
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
		t.Errorf("want none without an answer, and none beyond the limits")
	}
	// A machine that stands still for as long as a deadline is forgiven now and then.
	if calls := l.calls.Load(); *long && (l.late.Load()*100 > calls || l.lateThen.Load()*1000 > calls) {
		t.Errorf("%d of them were late more than a second after a change; want at most 1 in 1000 then, and 1 in 100 in all", l.lateThen.Load())
	}
}

// TestSentinelFailover kills the master under load. The Sentinels make a
// replica master, and counting goes on there.
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

// TestClusterFailover has a replica take over, and kills a master, under load.
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
			// A replica of the first master takes over, and gives back.
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
