package toxic

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/redisconn"
	"github.com/koalagate/koalagate/internal/store/rescue"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// long selects the long form, as in `make verify`.
var long = flag.Bool("long", false, "let every fault last ten seconds, three times")

// scene is a Redis behind a proxy that can disturb its connections.
type scene struct {
	t     *testing.T
	stage *e2e.Stage
	redis *e2e.Redis
	proxy *toxiproxy.Proxy
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{t: t}
	var err error
	if s.stage, err = e2e.NewStage(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stage.Close(); err != nil {
			t.Error(err)
		}
	})
	if s.redis, err = s.stage.Redis(); err != nil {
		t.Fatal(err)
	}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	s.proxy = toxiproxy.NewProxy(server, "redis", "127.0.0.1:0", s.redis.Address)
	if err := s.proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.proxy.Stop)
	return s
}

func open(t *testing.T, url string, way storetest.Way) *rescue.Store {
	t.Helper()
	o := redis.Options{URL: url}
	way.Set(&o)
	return storetest.OpenRescue(t, o, rescue.Options{})
}

// eachFault tests faults with the subject that start returns: in the long form every
// fault, with all Redis optimizations on and with all off; in the short form a Redis
// that hangs, with the given way.
func eachFault(t *testing.T, short storetest.Way, start func(*testing.T, *scene, storetest.Way) observed) {
	t.Helper()
	ways, tested := []storetest.Way{short}, faults[:1]
	if *long {
		ways, tested = storetest.Ways(false), faults
	}
	storetest.InWays(t, ways, func(t *testing.T, way storetest.Way) {
		for _, fault := range tested {
			t.Run(fault.name, func(t *testing.T) {
				s := newScene(t)
				fault.run(t, s, start(t, s, way))
			})
		}
	})
}

// poison adds a toxic to the answers of Redis.
func (s *scene) poison(kind, attributes string) {
	s.t.Helper()
	if _, err := s.proxy.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(`{"name":"it","type":%q,"stream":"downstream","attributes":{%s}}`, kind, attributes))); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) cure() { s.proxy.Toxics.ResetToxics(context.Background()) }

func (s *scene) signal(to syscall.Signal) {
	s.t.Helper()
	if err := s.redis.Signal(to); err != nil {
		s.t.Fatal(err)
	}
}

// url returns the URL of Redis behind the proxy.
func (s *scene) url() string { return "redis://" + s.proxy.Listen }

// fault is a way to disturb Redis, and to end the disturbance.
type fault struct {
	name       string
	start, end func(*scene)
	forgets    bool // Redis loses its counters
}

var faults = []fault{
	{name: "hung (SIGSTOP)", start: func(s *scene) { s.signal(syscall.SIGSTOP) }, end: func(s *scene) { s.signal(syscall.SIGCONT) }},
	{name: "killed and restarted", forgets: true, start: func(s *scene) {
		if err := s.redis.Kill(); err != nil {
			s.t.Fatal(err)
		}
	}, end: func(s *scene) {
		var err error
		if s.redis, err = s.stage.RestartRedis(s.redis); err != nil {
			s.t.Fatal(err)
		}
	}},
	{name: "silent (timeout)", start: func(s *scene) { s.poison("timeout", `"timeout":0`) }, end: (*scene).cure},
	{name: "slow (latency 300 ms)", start: func(s *scene) { s.poison("latency", `"latency":300`) }, end: (*scene).cure},
	{name: "resetting (reset_peer)", start: func(s *scene) { s.poison("reset_peer", `"timeout":0`) }, end: (*scene).cure},
	{name: "byte by byte (20 ms per byte)", start: func(s *scene) { s.poison("crumbs", "") }, end: (*scene).cure},
	{name: "cut in a reply (limit_data)", start: func(s *scene) { s.poison("limit_data", `"bytes":3`) }, end: (*scene).cure},
}

// observed is a store or a service under load whose state can be observed.
type observed interface {
	subject
	degraded() bool
	goroutines() int
}

// observedStore is an observed store.
type observedStore struct {
	directStore
	rescue *rescue.Store
}

func (o observedStore) degraded() bool { return o.rescue.State().Degraded }

// goroutines does not count goroutines of the proxy, which keeps some for cut
// connections.
func (observedStore) goroutines() (n int) {
	for one := range strings.SplitSeq(stacks(), "\n\n") {
		if !strings.Contains(one, "github.com/Shopify/toxiproxy") {
			n++
		}
	}
	return n
}

// stacks returns the stacks of all goroutines of this process, separated by empty
// lines.
func stacks() string {
	for size := 1 << 20; ; size *= 2 {
		buffer := make([]byte, size)
		if n := runtime.Stack(buffer, true); n < size {
			return string(buffer[:n])
		}
	}
}

// waitUntil waits until the degraded state of o has the given value, and returns the
// time that took.
func waitUntil(t *testing.T, o observed, degraded bool) time.Duration {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if o.degraded() == degraded {
			return time.Since(begin)
		}
		if time.Since(begin) > patience {
			t.Fatalf("degraded is not %v after %v", degraded, patience)
		}
	}
}

// Whatever happens to Redis, every call under load is decided, no limit is exceeded
// by more than instances without Redis may, and the counters are in use again when
// Redis is back.
func TestFaultsUnderLoad(t *testing.T) {
	eachFault(t, storetest.Off, func(t *testing.T, s *scene, way storetest.Way) observed {
		r := open(t, s.url(), way)
		return observedStore{directStore{r}, r}
	})
}

// bounds contains the duration of a fault, the deadline of each call, and the
// tolerated failures: one in so many calls may have no answer, or a late one. A busy
// machine can delay calls by 20 ms. Therefore the short form has a longer deadline,
// the long form judges the second of the change over all rounds, and calls that
// should never fail may fail occasionally.
type bounds struct {
	duration, deadline    time.Duration
	rounds                int
	change, after         int // one call in so many without an answer: in the second of the change, and later
	lateChange, lateAfter int // one call in so many without an answer in time
	back                  time.Duration
}

var (
	shortForm = bounds{duration: 2 * time.Second, deadline: easyDeadline, rounds: 1, change: 10, after: 10, lateChange: 1, lateAfter: 1, back: patience}
	longForm  = bounds{duration: 10 * time.Second, deadline: envoyDeadline, rounds: 3, change: 100, after: 1000, lateChange: 100, lateAfter: 100, back: time.Second}
)

// judge compares the figures of a fault with the bounds.
func (b *bounds) judge(t *testing.T, change, after figures) {
	t.Helper()
	if b.change*change.failed > change.calls || b.lateChange*change.late > change.calls {
		t.Errorf("in the second of the change: %v; want an answer to all but one in %d, in time to all but one in %d", change, b.change, b.lateChange)
	}
	if b.after*after.failed > after.calls || b.lateAfter*after.late > after.calls {
		t.Errorf("afterwards: %v; want an answer to all but one in %d, in time to all but one in %d", after, b.after, b.lateAfter)
	}
}

// run starts and ends a fault under load, and checks the results.
func (f *fault) run(t *testing.T, s *scene, o observed) {
	t.Helper()
	form := shortForm
	if *long {
		form = longForm
	}
	before := o.goroutines()
	l := newLoad(o, form.deadline)
	defer l.stop()
	var changes, afters figures
	for range form.rounds {
		time.Sleep(500 * time.Millisecond)
		waitUntil(t, o, false)
		started := time.Now()
		f.start(s)
		opened := waitUntil(t, o, true)
		// The change lasts a second or, on a busy machine, until it was detected.
		changed := started.Add(max(time.Second, time.Since(started)))
		time.Sleep(form.duration)
		ending := time.Now()
		f.end(s)
		back := waitUntil(t, o, false)
		time.Sleep(500 * time.Millisecond)
		change := l.sum(func(c *call) bool { return !c.begin.Before(started) && c.begin.Before(changed) })
		// A call that had not ended at the end of the fault may have reached Redis.
		meanwhile := l.sum(func(c *call) bool { return !c.begin.Before(changed) && c.end().Before(ending) })
		after := l.sum(func(c *call) bool { return !c.begin.Before(changed) && !c.end().Before(ending) })
		t.Logf("abandoned after %v; in use again %v after the fault; in the second of the change: %v; during the fault: %v; at the return: %v",
			opened.Round(time.Millisecond), back.Round(time.Millisecond), change, meanwhile, after)
		if change.degraded == 0 || meanwhile.degraded+meanwhile.failed != meanwhile.calls {
			t.Errorf("%d calls were rescued in the second of the change, and of %v during the fault %d; want some, and all", change.degraded, meanwhile, meanwhile.degraded)
		}
		if back > form.back {
			t.Errorf("Redis is in use again %v after the fault; want at most %v", back, form.back)
		}
		changes, afters = changes.plus(change), afters.plus(meanwhile).plus(after)
	}
	l.stop()
	form.judge(t, changes, afters)
	f.judge(t, l, form.rounds)
	countsAgain(t, o)
	settles(t, o, before)
}

// settles waits until the subject has as many goroutines as before, except a few for
// open connections of the test. A leak would leave hundreds of goroutines of probes,
// or thousands of calls.
func settles(t *testing.T, o observed, before int) {
	t.Helper()
	for begin := time.Now(); o.goroutines() > before+10; time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > patience {
			t.Fatalf("%d goroutines, %d before; the goroutines of this process are\n%s", o.goroutines(), before, stacks())
		}
	}
	t.Logf("%d goroutines, %d before", o.goroutines(), before)
}

// judge checks the answers of the callers in all rounds.
func (f *fault) judge(t *testing.T, l *load, rounds int) {
	t.Helper()
	for text, n := range l.errors {
		// Deadlines are judged by the figures, because the machine may stall for
		// 20 ms.
		if !strings.Contains(text, "DeadlineExceeded") {
			t.Errorf("%d calls were not decided: %s", n, text)
		}
	}
	if n := l.mistaken.Load(); n != 0 {
		t.Errorf("%d calls got the answer to another call", n)
	}
	// Redis admits the limit, and again if it lost its counters; rescue admits it
	// once per round, because it keeps its counts only for a minute.
	most := int64(limit * (1 + rounds))
	if f.forgets {
		most = int64(limit * (1 + 2*rounds))
	}
	// The begin of a fault may cut each caller off from the reply to one take that
	// Redis counted, and rescue may refuse that take.
	least := int64(limit - l.failed() - callers*rounds)
	if got := l.admitted.Load(); got > most || got < least {
		t.Errorf("%d were admitted under a limit of %d, and %d calls had no answer; want %d to %d", got, limit, l.failed(), least, most)
	}
}

// smallLimit is the limit of the identities of countsAgain.
const smallLimit = 50

// countsAgain checks that a limit of 50 admits exactly 50 of 100 calls, all counted
// in Redis. On a busy machine a call may be rescued; then it tries again.
func countsAgain(t *testing.T, s subject) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < 3*patience; {
		admitted, degraded := 0, false
		q := request{fmt.Sprintf("afterwards-%d", time.Since(begin)), smallLimit}
		for range 2 * smallLimit {
			a, err := s.take(context.Background(), q)
			if err != nil {
				t.Fatal(err)
			}
			degraded = degraded || a.degraded
			if a.admitted {
				admitted++
			}
		}
		if !degraded {
			if admitted != smallLimit {
				t.Errorf("%d of %d were admitted afterwards; want %d", admitted, 2*smallLimit, smallLimit)
			}
			return
		}
	}
	t.Error("in every 100 calls after the return some are degraded")
}

// The state names the fault of a host name that does not resolve.
func TestUnknownHostNameIsReported(t *testing.T) {
	r := open(t, "redis://no-such-host.invalid:6379", storetest.On)
	var a store.Answers
	if err := r.Evaluate(context.Background(), plan("u", 1), &a); err != nil || !a.Degraded {
		t.Errorf("degraded %v, %v; want an answer in process", a.Degraded, err)
	}
	if s := r.State(); !s.Degraded || redisconn.Remedy(s.Err) == "" {
		t.Errorf("state %+v, remedy %q; want the fault and a remedy", s, redisconn.Remedy(s.Err))
	}
}
