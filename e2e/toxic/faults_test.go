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
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// long asks for faults that last, as `make verify` runs them.
var long = flag.Bool("long", false, "let every fault last ten seconds, three times")

// scene is a Redis behind a proxy that can spoil what passes.
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

func open(t *testing.T, url string, way storetest.Way) *store.Rescue {
	t.Helper()
	o := store.RedisOptions{URL: url}
	way.Set(&o)
	return storetest.OpenRescue(t, o, store.RescueOptions{})
}

// eachFault has every fault happen to what start starts: in the long form with
// all on that makes Redis quick and with all off, in the short one as short says.
func eachFault(t *testing.T, short storetest.Way, start func(*testing.T, *scene, storetest.Way) observed) {
	t.Helper()
	ways := []storetest.Way{short}
	if *long {
		ways = storetest.Ways(false)
	}
	storetest.InWays(t, ways, func(t *testing.T, way storetest.Way) {
		for _, fault := range faults {
			t.Run(fault.name, func(t *testing.T) {
				s := newScene(t)
				fault.happen(t, s, start(t, s, way))
			})
		}
	})
}

// poison spoils what Redis answers.
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

// url is where Redis is, behind the proxy.
func (s *scene) url() string { return "redis://" + s.proxy.Listen }

// fault is a way in which Redis is spoilt, and how that is mended.
type fault struct {
	name        string
	spoil, mend func(*scene)
	forgets     bool // Redis has lost its counters
}

var faults = []fault{
	{name: "hung (SIGSTOP)", spoil: func(s *scene) { s.signal(syscall.SIGSTOP) }, mend: func(s *scene) { s.signal(syscall.SIGCONT) }},
	{name: "killed and restarted", forgets: true, spoil: func(s *scene) {
		if err := s.redis.Kill(); err != nil {
			s.t.Fatal(err)
		}
	}, mend: func(s *scene) {
		var err error
		if s.redis, err = s.stage.RestartRedis(s.redis); err != nil {
			s.t.Fatal(err)
		}
	}},
	{name: "silent (timeout)", spoil: func(s *scene) { s.poison("timeout", `"timeout":0`) }, mend: (*scene).cure},
	{name: "slow (latency 300 ms)", spoil: func(s *scene) { s.poison("latency", `"latency":300`) }, mend: (*scene).cure},
	{name: "resetting (reset_peer)", spoil: func(s *scene) { s.poison("reset_peer", `"timeout":0`) }, mend: (*scene).cure},
	{name: "in crumbs (20 ms a byte)", spoil: func(s *scene) { s.poison("crumbs", "") }, mend: (*scene).cure},
	{name: "cut in a reply (limit_data)", spoil: func(s *scene) { s.poison("limit_data", `"bytes":3`) }, mend: (*scene).cure},
}

// observed is a store or a service under load that is looked at from outside.
type observed interface {
	subject
	degraded() bool
	goroutines() int
}

// observedStore is a store that is looked at.
type observedStore struct {
	theStore
	rescue *store.Rescue
}

func (o observedStore) degraded() bool { return o.rescue.State().Degraded }

// goroutines leaves out those of the proxy, which keeps some of connections that
// were cut.
func (observedStore) goroutines() (n int) {
	for one := range strings.SplitSeq(stacks(), "\n\n") {
		if !strings.Contains(one, "github.com/Shopify/toxiproxy") {
			n++
		}
	}
	return n
}

// stacks are those of all goroutines of this process, with an empty line between
// two of them.
func stacks() string {
	for size := 1 << 20; ; size *= 2 {
		buffer := make([]byte, size)
		if n := runtime.Stack(buffer, true); n < size {
			return string(buffer[:n])
		}
	}
}

// until waits until it is degraded, or not.
func until(t *testing.T, o observed, degraded bool) time.Duration {
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

// Whatever happens to Redis, every call under load is decided, no limit is
// passed by more than what instances without Redis may, and the counters are in
// use again when it is back.
func TestFaultsUnderLoad(t *testing.T) {
	eachFault(t, storetest.Off, func(t *testing.T, s *scene, way storetest.Way) observed {
		r := open(t, s.url(), way)
		return observedStore{theStore{r}, r}
	})
}

// bounds are how long a fault lasts, what each call is given, and what may come of
// it at most: of so many calls one may have no answer, or a late one. A machine
// that does much else lets calls wait for 20 ms too: so the short form gives them
// longer, in the long one the second of the change is judged over all rounds, and
// what is promised to fail not at all may fail once in a while.
type bounds struct {
	lasts, deadline       time.Duration
	rounds                int
	change, after         int // without an answer in the second of the change, and later
	lateChange, lateAfter int // without one in time
	back                  time.Duration
}

var (
	shortForm = bounds{lasts: 2 * time.Second, deadline: easyDeadline, rounds: 1, change: 10, after: 10, lateChange: 1, lateAfter: 1, back: patience}
	longForm  = bounds{lasts: 10 * time.Second, deadline: envoysDeadline, rounds: 3, change: 100, after: 1000, lateChange: 100, lateAfter: 100, back: time.Second}
)

// judge compares what came of a fault with the bounds.
func (b *bounds) judge(t *testing.T, change, after figures) {
	t.Helper()
	if b.change*change.failed > change.calls || b.lateChange*change.late > change.calls {
		t.Errorf("the second of the change: %v; want an answer to all but one in %d, in time to all but one in %d", change, b.change, b.lateChange)
	}
	if b.after*after.failed > after.calls || b.lateAfter*after.late > after.calls {
		t.Errorf("after it: %v; want an answer to all but one in %d, in time to all but one in %d", after, b.after, b.lateAfter)
	}
}

// happen has a fault happen to Redis, and be mended, under load.
func (f *fault) happen(t *testing.T, s *scene, o observed) {
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
		until(t, o, false)
		spoilt := time.Now()
		f.spoil(s)
		opened := until(t, o, true)
		// The change lasts a second, and on a busy machine until it was seen.
		changed := spoilt.Add(max(time.Second, time.Since(spoilt)))
		time.Sleep(form.lasts)
		mending := time.Now()
		f.mend(s)
		back := until(t, o, false)
		time.Sleep(500 * time.Millisecond)
		change := l.sum(func(c *call) bool { return !c.begin.Before(spoilt) && c.begin.Before(changed) })
		// A call that was not over at the mending may have asked Redis after it.
		meanwhile := l.sum(func(c *call) bool { return !c.begin.Before(changed) && c.end().Before(mending) })
		after := l.sum(func(c *call) bool { return !c.begin.Before(changed) && !c.end().Before(mending) })
		t.Logf("left alone after %v; in use again %v after the mending; the second of the change: %v; until the mending: %v; the return: %v",
			opened.Round(time.Millisecond), back.Round(time.Millisecond), change, meanwhile, after)
		if change.degraded == 0 || meanwhile.degraded+meanwhile.failed != meanwhile.calls {
			t.Errorf("%d calls were rescued in the second of the change, and of %v until the mending %d; want some, and all", change.degraded, meanwhile, meanwhile.degraded)
		}
		if back > form.back {
			t.Errorf("Redis is in use again %v after the mending; want %v at most", back, form.back)
		}
		changes, afters = changes.plus(change), afters.plus(meanwhile).plus(after)
	}
	l.stop()
	form.judge(t, changes, afters)
	f.judge(t, l, form.rounds)
	countsAgain(t, o)
	settles(t, o, before)
}

// settles waits until the subject has as many goroutines as before, but for some
// of connections of the test's own, which stay open. Each leak would leave one for
// each of hundreds of looks for Redis, or of thousands of calls.
func settles(t *testing.T, o observed, before int) {
	t.Helper()
	for begin := time.Now(); o.goroutines() > before+10; time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > patience {
			t.Fatalf("%d goroutines, %d before; those of this process are\n%s", o.goroutines(), before, stacks())
		}
	}
	t.Logf("%d goroutines, %d before", o.goroutines(), before)
}

// judge looks at what the callers were told over so many rounds.
func (f *fault) judge(t *testing.T, l *load, rounds int) {
	t.Helper()
	for said, n := range l.faults {
		// A machine that stands still for 20 ms is no fault of ours; the figures
		// have it.
		if !strings.Contains(said, "DeadlineExceeded") {
			t.Errorf("%d calls were not decided: %s", n, said)
		}
	}
	if n := l.mistaken.Load(); n != 0 {
		t.Errorf("%d calls got an answer that is not theirs", n)
	}
	// Redis admits the limit, once more where it forgot; rescue once each time,
	// as what it counted is kept for a minute only.
	most := int64(limit * (1 + rounds))
	if f.forgets {
		most = int64(limit * (1 + 2*rounds))
	}
	if got := l.admitted.Load(); got > most || got < limit-int64(l.failed()) {
		t.Errorf("%d were admitted under a limit of %d, and %d calls had no answer; want at most %d", got, limit, l.failed(), most)
	}
}

// smallLimit is that of identities that are counted out afterwards.
const smallLimit = 50

// countsAgain: a limit of 50 lets exactly 50 of 100 through, all in Redis. On a
// busy machine one of the calls may be rescued; then others are asked for.
func countsAgain(t *testing.T, s subject) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < 3*patience; {
		admitted, degraded := 0, false
		q := asked{fmt.Sprintf("afterwards-%d", time.Since(begin)), smallLimit}
		for range 2 * smallLimit {
			a, err := s.ask(context.Background(), q)
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
	t.Error("of every 100 calls after the return some are degraded")
}

// A name that is not found is said to be that.
func TestANameThatIsNotFound(t *testing.T) {
	r := open(t, "redis://no-such-host.invalid:6379", storetest.On)
	var a store.Answers
	if err := r.Evaluate(context.Background(), plan("u", 1), &a); err != nil || !a.Degraded {
		t.Errorf("degraded %v, %v; want an answer in process", a.Degraded, err)
	}
	if s := r.State(); !s.Degraded || store.Remedy(s.Err) == "" {
		t.Errorf("state %+v, remedy %q; want the fault and what to do", s, store.Remedy(s.Err))
	}
}
