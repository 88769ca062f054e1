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
	"github.com/koalagate/koalagate/store"
	"github.com/koalagate/koalagate/store/storetest"
)

// long asks for faults that last, as `make verify` runs them.
var long = flag.Bool("long", false, "let every fault last ten seconds, three times")

// scene is a store in a Redis behind a proxy that can spoil what passes.
type scene struct {
	t      *testing.T
	stage  *e2e.Stage
	redis  *e2e.Redis
	proxy  *toxiproxy.Proxy
	rescue *store.Rescue
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
	s.rescue = open(t, "redis://"+s.proxy.Listen)
	return s
}

func open(t *testing.T, url string) *store.Rescue {
	t.Helper()
	// Remembered refusals would keep calls from a Redis that is in trouble.
	return storetest.OpenRescue(t, store.RedisOptions{URL: url, Refusals: -1}, store.RescueOptions{})
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

// until waits until the state is degraded, or not.
func (s *scene) until(degraded bool) time.Duration {
	s.t.Helper()
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		if s.rescue.State().Degraded == degraded {
			return time.Since(begin)
		}
		if time.Since(begin) > patience {
			s.t.Fatalf("degraded is not %v after %v: %+v", degraded, patience, s.rescue.State())
		}
	}
}

// faults are the ways in which Redis is spoilt, and how each is mended.
var faults = []struct {
	name        string
	spoil, mend func(*scene)
	forgets     bool // Redis has lost its counters
}{
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
	{name: "in crumbs (slicer, 20 ms a byte)", spoil: func(s *scene) { s.poison("slicer", `"average_size":1,"size_variation":0,"delay":20000`) }, mend: (*scene).cure},
	{name: "cut in a reply (limit_data)", spoil: func(s *scene) { s.poison("limit_data", `"bytes":3`) }, mend: (*scene).cure},
}

// Whatever happens to Redis, every call under load is decided, no limit is
// passed by more than what instances without Redis may, and the counters are in
// use again when it is back.
func TestFaultsUnderLoad(t *testing.T) {
	lasts, rounds := 2*time.Second, 1
	if *long {
		lasts, rounds = 10*time.Second, 3
	}
	for _, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			s := newScene(t)
			before := runtime.NumGoroutine()
			l := newLoad(s.rescue)
			defer l.stop()
			for range rounds {
				time.Sleep(500 * time.Millisecond)
				spoilt := time.Now()
				fault.spoil(s)
				opened := s.until(true)
				time.Sleep(lasts)
				fault.mend(s)
				mended := time.Now()
				back := s.until(false)
				time.Sleep(500 * time.Millisecond)
				change := l.between(spoilt, spoilt.Add(time.Second))
				meanwhile := l.between(spoilt.Add(time.Second), mended)
				t.Logf("left alone after %v; in use again %v after the mending; the second of the change: %v; until the mending: %v; the return: %v",
					opened.Round(time.Millisecond), back.Round(time.Millisecond), change, meanwhile, l.between(mended, time.Now()))
				if change.degraded == 0 {
					t.Error("no call was rescued")
				}
			}
			l.stop()
			if n := l.failed.Load(); n != 0 {
				t.Errorf("%d calls were not decided", n)
			}
			// Redis admits the limit, once more where it forgot; rescue once
			// each time, as what it counted is kept for a minute only.
			most := int64(limit * (1 + rounds))
			if fault.forgets {
				most = int64(limit * (1 + 2*rounds))
			}
			if got := l.admitted.Load(); got > most || got < limit {
				t.Errorf("%d were admitted under a limit of %d; want at most %d", got, limit, most)
			}
			s.countsAgain(t)
			// The proxy has some for each connection; a leak would have one for
			// each of thousands of calls.
			for begin := time.Now(); runtime.NumGoroutine() > before+100; time.Sleep(10 * time.Millisecond) {
				if time.Since(begin) > patience {
					t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
				}
			}
		})
	}
}

// countsAgain: a limit of 50 lets exactly 50 of 100 through, all in Redis. On a
// busy machine one of the calls may be rescued; then others are asked for.
func (s *scene) countsAgain(t *testing.T) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < patience; {
		admitted, degraded := 0, false
		who := fmt.Sprintf("afterwards-%d", time.Since(begin))
		for range 100 {
			var a store.Answers
			if err := s.rescue.Evaluate(context.Background(), plan(who, 50), &a); err != nil {
				t.Fatal(err)
			}
			degraded = degraded || a.Degraded
			if a.Sets[0].Decider < 0 {
				admitted++
			}
		}
		if !degraded {
			if admitted != 50 {
				t.Errorf("%d of 100 were admitted afterwards; want 50", admitted)
			}
			return
		}
	}
	t.Errorf("of every 100 calls after the return some are degraded: %+v", s.rescue.State())
}

// A name that is not found is said to be that.
func TestANameThatIsNotFound(t *testing.T) {
	r := open(t, "redis://no-such-host.invalid:6379")
	var a store.Answers
	if err := r.Evaluate(context.Background(), plan("u", 1), &a); err != nil || !a.Degraded {
		t.Errorf("degraded %v, %v; want an answer in process", a.Degraded, err)
	}
	if s := r.State(); !s.Degraded || store.Remedy(s.Err) == "" {
		t.Errorf("state %+v, remedy %q; want the fault and what to do", s, store.Remedy(s.Err))
	}
}
