package rescue_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/redisconn"
	"github.com/koalagate/koalagate/internal/store/rescue"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// harness is a rescue store over a server, with the reported changes of its state.
type harness struct {
	*rescue.Store
	mu      sync.Mutex
	changes []rescue.State
	counted int64 // answers of Redis
}

const (
	// budget is the budget of calls to a hanging Redis.
	budget = 100 * time.Millisecond
	// ample is the budget of all other calls: they are answered even if the machine
	// stalls for a moment.
	ample = time.Minute
	// patience is how long a test waits for an expected event.
	patience = 30 * time.Second
)

func openRescue(t *testing.T, url string, way storetest.Way, budget time.Duration) *harness {
	t.Helper()
	r := new(harness)
	o := redis.Options{URL: url, Budget: budget}
	way.Set(&o)
	r.Store = storetest.OpenRescue(t, o, rescue.Options{OnChange: func(s rescue.State) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.changes = append(r.changes, s)
	}})
	return r
}

// openHanging opens a store over a server that accepts connections and does not
// answer.
func openHanging(t *testing.T, way storetest.Way) *harness {
	t.Helper()
	server := storetest.StartServer(t)
	r := openRescue(t, server.URL(), way, ample)
	server.Pause()
	t.Cleanup(server.Resume)
	return r
}

// take takes one of 1000 hits per ten minutes, and returns the answer and how long
// it took. There must be an answer whatever Redis does.
func (r *harness) take(t *testing.T) (store.Answers, time.Duration) {
	t.Helper()
	var a store.Answers
	begin := time.Now()
	p := &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{
		{Subject: []byte("u"), Return: 1, Method: store.Count, Time: 600, Count: 1000, Weight: 1},
	}}}}
	if err := r.Evaluate(context.Background(), p, &a); err != nil {
		t.Fatal(err)
	}
	if !a.Degraded {
		r.counted++
	}
	return a, time.Since(begin)
}

// until waits for an answer that is or is not degraded.
func (r *harness) until(t *testing.T, degraded bool) store.Answers {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		a, took := r.take(t)
		if took > patience {
			t.Errorf("an answer took %v", took)
		}
		if a.Degraded == degraded && r.State().Degraded == degraded {
			return a
		}
		if time.Since(begin) > patience {
			t.Fatalf("degraded is still %v after %v, state %+v", !degraded, patience, r.State())
		}
	}
}

func TestRescueWhenRedisIsKilled(t *testing.T) {
	storetest.InWaysAtOnce(t, storetest.Ways(*long), rescueWhenRedisIsKilled)
}

func rescueWhenRedisIsKilled(t *testing.T, way storetest.Way) {
	server := storetest.StartServer(t)
	r := openRescue(t, server.URL(), way, ample)
	if a, _ := r.take(t); a.Degraded || a.Sets[0].Remaining != 999 {
		t.Fatalf("with Redis: %+v", a)
	}
	server.Kill()
	if a, _ := r.take(t); !a.Degraded || a.Sets[0].Remaining != 998 {
		t.Errorf("the first call after the kill is not answered in process, from where Redis was: %+v", a)
	}
	if s := r.State(); !s.Degraded || s.Err == nil || s.Since.IsZero() {
		t.Errorf("state %+v, want degraded with an error", s)
	}
	// As long as a pool takes to stop dialing.
	for begin := time.Now(); time.Since(begin) < 1500*time.Millisecond; time.Sleep(10 * time.Millisecond) {
		r.checkAnswersAtOnce(t)
	}
	server.Start()
	r.counted = 0
	if a := r.until(t, false); a.Sets[0].Remaining != 1000-r.counted {
		t.Errorf("%d calls were counted in the new Redis: %+v", r.counted, a)
	}
	r.wantRemedies(t, "nothing listens there", "")
}

// checkAnswersAtOnce checks that calls are answered in process and do not wait for
// Redis. A busy machine may delay some of them, but not all.
func (r *harness) checkAnswersAtOnce(t *testing.T) {
	t.Helper()
	least := patience
	for range 20 {
		a, took := r.take(t)
		if !a.Degraded {
			t.Error("Redis answered while it was unreachable")
		}
		if least = min(least, took); least <= budget/2 {
			return
		}
	}
	t.Errorf("each of 20 answers without Redis took %v or more", least)
}

// wantRemedies compares the remedies of the reported changes: "" for the return of
// Redis.
func (r *harness) wantRemedies(t *testing.T, want ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var got []string
	for _, s := range r.changes {
		if s.Degraded {
			got = append(got, redisconn.Remedy(s.Err))
		} else {
			got = append(got, "")
		}
	}
	if !slices.EqualFunc(got, want, func(g, w string) bool { return (g == "") == (w == "") && strings.Contains(g, w) }) {
		t.Errorf("changes were reported with the remedies %q; want %q", got, want)
	}
}

// TestRescueReportsEachFaultOnce checks that each fault of Redis is reported once,
// whatever the number of calls and probes.
func TestRescueReportsEachFaultOnce(t *testing.T) {
	storetest.InWaysAtOnce(t, storetest.Ways(*long), rescueReportsEachFaultOnce)
}

func rescueReportsEachFaultOnce(t *testing.T, way storetest.Way) {
	server := storetest.StartServer(t)
	r := openRescue(t, server.URL(), way, ample)
	client := server.Client()
	defer client.Close()
	if err := client.ConfigSet(context.Background(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		r.take(t)
	}
	server.Kill()
	r.waitFor(t, "the second fault is reported", func() bool { return len(r.changes) == 2 })
	server.Start()
	r.until(t, false)
	r.wantRemedies(t, "maxmemory", "nothing listens there", "")
}

// waitFor waits until a condition on the changes holds.
func (r *harness) waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		r.mu.Lock()
		done := holds()
		r.mu.Unlock()
		if done {
			return
		}
		if time.Since(begin) > patience {
			t.Fatalf("after %v, this has not happened: %s", patience, what)
		}
	}
}

// TestRescueReturnsInStages checks that a returning Redis receives a growing share
// of the calls.
func TestRescueReturnsInStages(t *testing.T) {
	storetest.InWaysAtOnce(t, storetest.Ways(*long), rescueReturnsInStages)
}

func rescueReturnsInStages(t *testing.T, way storetest.Way) {
	server := storetest.StartServer(t)
	r := openRescue(t, server.URL(), way, ample)
	begun, over := make(chan struct{}, 100), make(chan time.Time)
	r.SetStages(func() <-chan time.Time {
		begun <- struct{}{}
		return over // ends when the test decides, however slow the machine is
	})
	server.Kill()
	r.take(t)
	server.Start()
	for _, share := range []int64{1, 2, 4, 8} {
		select {
		case <-begun:
		case <-time.After(patience):
			t.Fatalf("no stage began in which Redis receives %d of 16 calls", share)
		}
		r.counted = 0
		for range 32 {
			r.take(t)
		}
		if r.counted != 2*share || !r.State().Degraded {
			t.Errorf("Redis received %d of 32 calls, degraded is %v; want %d, and true", r.counted, r.State().Degraded, 2*share)
		}
		over <- time.Time{}
	}
	r.until(t, false)
	if a, _ := r.take(t); a.Degraded {
		t.Error("a call after the return is degraded")
	}
}

func TestRescueWhenRedisHangs(t *testing.T) {
	storetest.InWaysAtOnce(t, storetest.Ways(*long), rescueWhenRedisHangs)
}

func rescueWhenRedisHangs(t *testing.T, way storetest.Way) {
	server := storetest.StartServer(t)
	r := openRescue(t, server.URL(), way, budget)
	r.until(t, false) // the machine may be busy
	server.Pause()
	a, _ := r.take(t)
	if !a.Degraded || r.State().Degraded {
		t.Errorf("one timeout: answered in process %v, breaker open %v; want true, false", a.Degraded, r.State().Degraded)
	}
	r.until(t, true)
	r.checkAnswersAtOnce(t)
	server.Resume()
	r.until(t, false)
}

func TestRescueWithoutRedisAtStart(t *testing.T) {
	storetest.InWaysAtOnce(t, storetest.Ways(*long), rescueWithoutRedisAtStart)
}

func rescueWithoutRedisAtStart(t *testing.T, way storetest.Way) {
	server := storetest.StartServer(t)
	server.Kill()
	r := openRescue(t, server.URL(), way, ample)
	if a, _ := r.take(t); !a.Degraded || !r.State().Degraded {
		t.Errorf("degraded: answer %v, state %v; want both", a.Degraded, r.State().Degraded)
	}
	server.Start()
	r.until(t, false)
}

func TestRescueWhenRedisIsOutOfMemory(t *testing.T) {
	storetest.InWaysAtOnce(t, storetest.Ways(*long), rescueWhenRedisIsOutOfMemory)
}

func rescueWhenRedisIsOutOfMemory(t *testing.T, way storetest.Way) {
	server := storetest.StartServer(t)
	r := openRescue(t, server.URL(), way, ample)
	client := server.Client()
	defer client.Close()
	ctx := context.Background()
	if err := client.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if a, _ := r.take(t); !a.Degraded || !r.State().Degraded {
		t.Errorf("a Redis without memory: degraded: answer %v, state %v; want both", a.Degraded, r.State().Degraded)
	}
	waitForErrors(t, client, 3) // of probes, which must fail too
	if !r.State().Degraded {
		t.Error("a Redis without memory counts as available")
	}
	if err := client.ConfigSet(ctx, "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	r.until(t, false)
}

func TestRescueWhenTheScriptLacksPermission(t *testing.T) {
	storetest.InWaysAtOnce(t, storetest.Ways(*long), rescueWhenTheScriptLacksPermission)
}

func rescueWhenTheScriptLacksPermission(t *testing.T, way storetest.Way) {
	server := storetest.StartServer(t)
	r := openRescue(t, server.URL(), way, ample)
	client := server.Client()
	defer client.Close()
	forbid := func(rule string) {
		t.Helper()
		if err := client.Do(context.Background(), "ACL", "SETUSER", "default", rule).Err(); err != nil {
			t.Fatal(err)
		}
	}
	forbid("-time") // fails within the script, not on the connection
	r.take(t)
	r.until(t, true)
	waitForErrors(t, client, 3) // of probes
	if !r.State().Degraded {
		t.Error("a Redis that denies a command of the script counts as available")
	}
	forbid("+time")
	r.until(t, false)
}

// waitForErrors waits until Redis has replied n more errors. A sequence of probes has
// handled all of them but the last.
func waitForErrors(t *testing.T, client *goredis.Client, n int) {
	t.Helper()
	count := func() (sum int) {
		for line := range strings.Lines(client.Info(context.Background(), "errorstats").Val()) {
			if _, text, found := strings.Cut(strings.TrimSpace(line), ":count="); found {
				one, err := strconv.Atoi(text)
				if err != nil {
					t.Fatalf("Redis counts errors as %q", line)
				}
				sum += one
			}
		}
		return sum
	}
	before := count()
	storetest.Eventually(t, func() error {
		if more := count() - before; more < n {
			return fmt.Errorf("%d errors of Redis; want %d", more, n)
		}
		return nil
	})
}

func TestExpiredCallersDoNotOpenTheBreaker(t *testing.T) {
	storetest.InWaysAtOnce(t, storetest.Ways(*long), expiredCallersDoNotOpenTheBreaker)
}

func expiredCallersDoNotOpenTheBreaker(t *testing.T, way storetest.Way) {
	r := openHanging(t, way)
	for range 10 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		p := &store.Plan{Op: store.Browse, Zone: time.UTC}
		<-ctx.Done()
		if err := r.Evaluate(ctx, p, new(store.Answers)); err == nil {
			t.Error("an expired call was answered")
		}
		cancel()
	}
	if r.State().Degraded {
		t.Error("expired callers opened the breaker")
	}
}

func TestHurriedCallersDoNotOpenTheBreaker(t *testing.T) {
	storetest.InWaysAtOnce(t, storetest.Ways(*long), hurriedCallersDoNotOpenTheBreaker)
}

func hurriedCallersDoNotOpenTheBreaker(t *testing.T, way storetest.Way) {
	r := openHanging(t, way)
	for range 10 {
		ctx, cancel := context.WithTimeout(context.Background(), 9*time.Millisecond)
		var a store.Answers
		if err := r.Evaluate(ctx, &store.Plan{Op: store.Browse, Zone: time.UTC}, &a); ctx.Err() == nil && (err != nil || !a.Degraded) {
			t.Errorf("a caller with 9 ms: degraded %v, %v; want an answer in process", a.Degraded, err)
		}
		cancel()
	}
	if r.State().Degraded {
		t.Error("hurried callers opened the breaker")
	}
}

// TestCallersWithTenMillisecondsOpenTheBreaker checks that callers with 10 ms or
// more open the breaker, as the documentation states: 5 ms of them are for Redis.
func TestCallersWithTenMillisecondsOpenTheBreaker(t *testing.T) {
	storetest.InWaysAtOnce(t, storetest.Ways(*long), callersWithTenMillisecondsOpenTheBreaker)
}

func callersWithTenMillisecondsOpenTheBreaker(t *testing.T, way storetest.Way) {
	r := openHanging(t, way)
	r.waitForAbsence(t, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 11*time.Millisecond)
		defer cancel()
		_ = r.Evaluate(ctx, oneCount("u", 1000), new(store.Answers)) // its time may be over
	})
}

// waitForAbsence makes calls until the breaker is open.
func (r *harness) waitForAbsence(t *testing.T, call func()) {
	t.Helper()
	for begin := time.Now(); !r.State().Degraded; call() {
		if time.Since(begin) > patience {
			t.Fatal("the breaker does not open")
		}
	}
}

// TestRememberedRefusalsDoNotHideAHangingRedis checks that remembered refusals do
// not count as answers of Redis.
func TestRememberedRefusalsDoNotHideAHangingRedis(t *testing.T) {
	server := storetest.StartServer(t)
	r := storetest.OpenRescue(t, redis.Options{URL: server.URL(), Budget: budget}, rescue.Options{})
	storetest.Eventually(t, func() error {
		a := new(store.Answers)
		if err := r.Evaluate(context.Background(), oneCount("refused", 1), a); err != nil {
			return err
		}
		if a.Degraded || a.Sets[0].Retry <= 1000 {
			return fmt.Errorf("answer %+v; want a refusal of Redis", a)
		}
		return nil
	})
	server.Pause()
	defer server.Resume()
	unanswered := 0
	call := func(p *store.Plan) {
		t.Helper()
		if r.State().Degraded && unanswered < 3 {
			t.Fatalf("the breaker opened after %d calls without an answer", unanswered)
		}
		a := new(store.Answers)
		// Without a deadline the call cannot expire before its answer is judged,
		// however busy the machine.
		if err := r.Evaluate(context.Background(), p, a); err != nil {
			t.Error(err)
		}
		if a.Degraded {
			unanswered++
		}
	}
	for range 3 {
		call(oneCount("other", 1000))
		for range 10 {
			call(oneCount("refused", 1))
		}
	}
	if !r.State().Degraded {
		t.Error("the breaker is closed after three calls without an answer: remembered refusals counted as answers")
	}
}

func TestLogClientReceivesFailedDials(t *testing.T) {
	var lines []string
	var mu sync.Mutex
	redisconn.LogClient(func(line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	})
	defer redisconn.LogClient(func(string) {}) // as in TestMain
	server := storetest.StartServer(t)
	r := openRescue(t, server.URL(), storetest.On, ample)
	server.Kill()
	r.take(t)
	mu.Lock()
	defer mu.Unlock()
	if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, "failed to dial") }) {
		t.Errorf("%q do not report the failed dial", lines)
	}
}

func TestRescueEndsItsGoroutines(t *testing.T) {
	server := storetest.StartServer(t)
	ignore := goleak.IgnoreCurrent()
	t.Run("use", func(t *testing.T) {
		r := openRescue(t, server.URL(), storetest.On, ample)
		r.take(t)
		server.Kill()
		r.take(t)
		server.Start()
		r.until(t, false)
	})
	goleak.VerifyNone(t, ignore)
}

// oneCount returns a take on one count rule.
func oneCount(subject string, count int64) *store.Plan {
	return &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{
		{Method: store.Count, Return: 1, Subject: []byte(subject), Weight: 1, Time: 600, Count: count},
	}}}}
}
