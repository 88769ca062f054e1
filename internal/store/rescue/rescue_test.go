package rescue_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/redisconn"
	"github.com/koalagate/koalagate/internal/store/rescue"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// harness is a rescue store over a server, and the changes of its state.
type harness struct {
	*rescue.Store
	mu      sync.Mutex
	changes []rescue.State
	counted int64 // answers of Redis
}

const (
	// budget is that of calls which use it up, since Redis hangs.
	budget = 100 * time.Millisecond
	// ample is that of all others: a machine that stands still for a moment takes
	// no answer from them.
	ample = time.Minute
	// patience is how long a test waits for what has to happen.
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

// openHanging opens one over a server that is there and says nothing.
func openHanging(t *testing.T, way storetest.Way) *harness {
	t.Helper()
	server := storetest.StartServer(t)
	r := openRescue(t, server.URL(), way, ample)
	server.Pause()
	t.Cleanup(server.Resume)
	return r
}

// take takes one of ten hits a minute and returns the answer and how long it
// took. Whatever Redis does, there is one.
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
	if a, _ := r.take(t); !a.Degraded || a.Sets[0].Remaining != 999 {
		t.Errorf("the first call after the kill is not answered in process: %+v", a)
	}
	if s := r.State(); !s.Degraded || s.Err == nil || s.Since.IsZero() {
		t.Errorf("state %+v, want degraded with an error", s)
	}
	// As long as a pool needs to give Redis up.
	for begin := time.Now(); time.Since(begin) < 1500*time.Millisecond; time.Sleep(10 * time.Millisecond) {
		r.answersAtOnce(t)
	}
	server.Start()
	r.counted = 0
	if a := r.until(t, false); a.Sets[0].Remaining != 1000-r.counted {
		t.Errorf("%d calls were counted in the new Redis: %+v", r.counted, a)
	}
	r.wantRemedies(t, "nothing listens there", "")
}

// answersAtOnce looks that calls are answered in process and do not wait for
// Redis: a busy machine may hold some of them up, and not each.
func (r *harness) answersAtOnce(t *testing.T) {
	t.Helper()
	least := patience
	for range 20 {
		a, took := r.take(t)
		if !a.Degraded {
			t.Error("while Redis is away it has answered")
		}
		if least = min(least, took); least <= budget/2 {
			return
		}
	}
	t.Errorf("while Redis is away each of 20 answers takes %v or more", least)
}

// wantRemedies compares the changes that were told of with what the operator
// is to do about each: nothing once Redis is back.
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
		t.Errorf("changes were told of with %q; want %q", got, want)
	}
}

// Each fault that Redis is found away with is told of once, whatever the number
// of calls and probes.
func TestRescueTellsOfEachFaultOnce(t *testing.T) {
	storetest.InWaysAtOnce(t, storetest.Ways(*long), rescueTellsOfEachFaultOnce)
}

func rescueTellsOfEachFaultOnce(t *testing.T, way storetest.Way) {
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
	r.waitFor(t, "the second fault is told of", func() bool { return len(r.changes) == 2 })
	server.Start()
	r.until(t, false)
	r.wantRemedies(t, "maxmemory", "nothing listens there", "")
}

// waitFor waits until something about the changes is so.
func (r *harness) waitFor(t *testing.T, what string, isSo func() bool) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		r.mu.Lock()
		is := isSo()
		r.mu.Unlock()
		if is {
			return
		}
		if time.Since(begin) > patience {
			t.Fatalf("it has not happened after %v: %s", patience, what)
		}
	}
}

// A Redis that returns gets some of the calls first, then all.
func TestRescueComesBackInStages(t *testing.T) {
	storetest.InWaysAtOnce(t, storetest.Ways(*long), rescueComesBackInStages)
}

func rescueComesBackInStages(t *testing.T, way storetest.Way) {
	server := storetest.StartServer(t)
	r := openRescue(t, server.URL(), way, ample)
	begun, over := make(chan struct{}, 100), make(chan time.Time)
	r.SetStages(func() <-chan time.Time {
		begun <- struct{}{}
		return over // when the test says so, however slow the machine is
	})
	server.Kill()
	r.take(t)
	server.Start()
	for _, share := range []int64{1, 2, 4, 8} {
		select {
		case <-begun:
		case <-time.After(patience):
			t.Fatalf("no stage has begun in which Redis gets %d calls of 16", share)
		}
		r.counted = 0
		for range 32 {
			r.take(t)
		}
		if r.counted != 2*share || !r.State().Degraded {
			t.Errorf("Redis got %d calls of 32, degraded is %v; want %d, and that it still is", r.counted, r.State().Degraded, 2*share)
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
	r.answersAtOnce(t)
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

func TestRescueWhenRedisRefuses(t *testing.T) {
	storetest.InWaysAtOnce(t, storetest.Ways(*long), rescueWhenRedisRefuses)
}

func rescueWhenRedisRefuses(t *testing.T, way storetest.Way) {
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
	time.Sleep(300 * time.Millisecond) // some probes: a Redis that cannot write is not back
	if !r.State().Degraded {
		t.Error("a Redis without memory was taken to be back")
	}
	if err := client.ConfigSet(ctx, "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	r.until(t, false)
}

func TestRescueWhenRedisForbidsWhatTheScriptDoes(t *testing.T) {
	storetest.InWaysAtOnce(t, storetest.Ways(*long), rescueWhenRedisForbidsWhatTheScriptDoes)
}

func rescueWhenRedisForbidsWhatTheScriptDoes(t *testing.T, way storetest.Way) {
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
	forbid("-time") // an error of the script's, not of the connection's
	r.take(t)
	r.until(t, true)
	time.Sleep(300 * time.Millisecond) // some probes
	if !r.State().Degraded {
		t.Error("a Redis that forbids what the script does was taken to be back")
	}
	forbid("+time")
	r.until(t, false)
}

func TestRescueLeavesACallerThatIsGoneAlone(t *testing.T) {
	storetest.InWaysAtOnce(t, storetest.Ways(*long), rescueLeavesACallerThatIsGoneAlone)
}

func rescueLeavesACallerThatIsGoneAlone(t *testing.T, way storetest.Way) {
	r := openHanging(t, way)
	for range 10 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		p := &store.Plan{Op: store.Browse, Zone: time.UTC}
		<-ctx.Done()
		if err := r.Evaluate(ctx, p, new(store.Answers)); err == nil {
			t.Error("a call whose caller is gone was answered")
		}
		cancel()
	}
	if r.State().Degraded {
		t.Error("callers that left opened the breaker")
	}
}

func TestRescueLeavesHurriedCallersAlone(t *testing.T) {
	storetest.InWaysAtOnce(t, storetest.Ways(*long), rescueLeavesHurriedCallersAlone)
}

func rescueLeavesHurriedCallersAlone(t *testing.T, way storetest.Way) {
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
		t.Error("callers in a hurry opened the breaker")
	}
}

// Callers that bring 10 ms count, as the manual says: they leave Redis 5.
func TestRescueHeedsCallersWithLittleTime(t *testing.T) {
	storetest.InWaysAtOnce(t, storetest.Ways(*long), rescueHeedsCallersWithLittleTime)
}

func rescueHeedsCallersWithLittleTime(t *testing.T, way storetest.Way) {
	r := openHanging(t, way)
	r.waitForAbsence(t, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 11*time.Millisecond)
		defer cancel()
		_ = r.Evaluate(ctx, oneCount("u", 1000), new(store.Answers)) // its time may be over
	})
}

// waitForAbsence makes calls until Redis is left alone.
func (r *harness) waitForAbsence(t *testing.T, call func()) {
	t.Helper()
	for begin := time.Now(); !r.State().Degraded; call() {
		if time.Since(begin) > patience {
			t.Fatal("Redis is not left alone")
		}
	}
}

// What is told from memory says nothing about a Redis that hangs.
func TestRememberedRefusalsAreNoAnswersOfRedis(t *testing.T) {
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
	ask := func(p *store.Plan) {
		t.Helper()
		if r.State().Degraded && unanswered < 3 {
			t.Fatalf("Redis is left alone after %d calls without an answer", unanswered)
		}
		a := new(store.Answers)
		// A caller without a deadline of its own is never gone before its answer is
		// judged, however busy the machine.
		if err := r.Evaluate(context.Background(), p, a); err != nil {
			t.Error(err)
		}
		if a.Degraded {
			unanswered++
		}
	}
	for range 3 {
		ask(oneCount("other", 1000))
		for range 10 {
			ask(oneCount("refused", 1))
		}
	}
	if !r.State().Degraded {
		t.Error("three calls without an answer, and Redis is asked still: refusals that are remembered counted for it")
	}
}

func TestTheClientsOwnLog(t *testing.T) {
	var lines []string
	var mu sync.Mutex
	redisconn.LogClient(func(line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	})
	defer redisconn.LogClient(func(string) {}) // as TestMain has it
	server := storetest.StartServer(t)
	r := openRescue(t, server.URL(), storetest.On, ample)
	server.Kill()
	r.take(t)
	mu.Lock()
	defer mu.Unlock()
	if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, "failed to dial") }) {
		t.Errorf("%q do not tell of the failed dial", lines)
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

// oneCount returns a take of one count rule.
func oneCount(subject string, count int64) *store.Plan {
	return &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{
		{Method: store.Count, Return: 1, Subject: []byte(subject), Weight: 1, Time: 600, Count: count},
	}}}}
}
