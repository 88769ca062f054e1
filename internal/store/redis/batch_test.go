package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/redisconn"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// oneCount returns a take on one count rule.
func oneCount(subject string, count int64) *store.Plan {
	return &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{
		{Method: store.Count, Return: 1, Subject: []byte(subject), Weight: 1, Time: 600, Count: count},
	}}}}
}

// crowd makes n calls at once and returns how many were admitted.
func crowd(t *testing.T, n int, call func(i int, a *store.Answers) error) int64 {
	t.Helper()
	var admitted atomic.Int64
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			a := new(store.Answers)
			if err := call(i, a); err != nil {
				t.Errorf("call %d: %v", i, err)
				return
			}
			if a.Sets[0].Decider < 0 {
				admitted.Add(1)
			}
		})
	}
	group.Wait()
	return admitted.Load()
}

func TestBatchedCallsGetTheirOwnAnswers(t *testing.T) {
	server := storetest.StartServer(t)
	r := server.Open(t)
	const callers = 1000
	admitted := crowd(t, callers, func(i int, a *store.Answers) error {
		return r.Evaluate(context.Background(), oneCount(fmt.Sprint("subject", i%10), 7), a)
	})
	if admitted != 70 {
		t.Errorf("%d of %d calls were admitted on ten limits of 7; want 70", admitted, callers)
	}
	client := server.Client()
	defer client.Close()
	if c := r.Calls(); c.Plans+c.Remembered != callers || c.Scripts > c.Plans {
		t.Errorf("%+v; want %d calls in all, and fewer script calls", c, callers)
	}
	if keys := client.DBSize(context.Background()).Val(); keys > 11 { // of ten subjects and of the check
		t.Errorf("%d keys; want one per subject", keys)
	}
}

func TestScriptFlushCountsBatchedCallsOnce(t *testing.T) {
	server := storetest.StartServer(t)
	r := server.Open(t, func(o *redis.Options) { o.Refusals = -1 }) // the test deletes counters directly
	client := server.Client()
	defer client.Close()
	for range 20 {
		client.ScriptFlush(context.Background())
		client.Del(context.Background(), client.Keys(context.Background(), "*").Val()...)
		if admitted := crowd(t, 200, func(_ int, a *store.Answers) error {
			return r.Evaluate(context.Background(), oneCount("s", 50), a)
		}); admitted != 50 {
			t.Fatalf("%d of 200 calls were admitted on a limit of 50", admitted)
		}
	}
}

func TestFaultyPlanFailsAlone(t *testing.T) {
	server := storetest.StartServer(t)
	for _, way := range storetest.Ways(true) {
		name, r := way.Name, server.Open(t, way.Set)
		good, bad := oneCount("good", 2), oneCount("bad", 2)
		bad.Sets[0].Rules[0].Method = 7 // which Evaluate would reject
		answers := make([]store.Answers, 5)
		faults := r.EvaluateEach([]*store.Plan{good, bad, good, bad, good}, answers)
		for i, fault := range faults {
			if failed := fault != nil; failed != (i%2 == 1) {
				t.Errorf("%s: call %d: error %v", name, i, fault)
			}
		}
		for i, admitted := range map[int]bool{0: true, 2: true, 4: false} {
			if got := answers[i].Sets[0].Decider < 0; got != admitted {
				t.Errorf("%s: call %d was admitted: %v; want %v, each counted once", name, i, got, admitted)
			}
		}
		if text := faults[1].Error(); !strings.Contains(text, "counted nothing") {
			t.Errorf("%s: error %q; want one that states that nothing was counted", name, text)
		}
	}
}

func TestBatchedCallsKeepTheirDeadlines(t *testing.T) {
	server := storetest.StartServer(t)
	r := server.Open(t)
	server.Pause()
	defer server.Resume()
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			own := time.Duration(10+i) * time.Millisecond
			ctx, cancel := context.WithTimeout(context.Background(), own)
			defer cancel()
			begin := time.Now()
			err := r.Evaluate(ctx, oneCount("s", 50), new(store.Answers))
			if err == nil {
				t.Error("a hanging Redis answered")
			}
			if took := time.Since(begin); took > time.Minute/2 { // it would wait a minute without a deadline
				t.Errorf("a call with a deadline of %v took %v", own, took)
			}
		})
	}
	group.Wait()
}

// gate holds the calls of a client until open is closed.
type gate struct{ entered, open chan struct{} }

func (g gate) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (g gate) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, command goredis.Cmder) error {
		g.entered <- struct{}{}
		<-g.open
		return next(ctx, command)
	}
}

func (g gate) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, commands []goredis.Cmder) error {
		g.entered <- struct{}{}
		<-g.open
		return next(ctx, commands)
	}
}

func TestUnsentCallsAreNotCounted(t *testing.T) {
	server := storetest.StartServer(t)
	o, err := goredis.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	o.MaxRetries = -1
	client := goredis.NewClient(o)
	defer client.Close()
	g := gate{entered: make(chan struct{}, 100), open: make(chan struct{})}
	client.AddHook(g)
	r, err := redis.Open(redis.Options{Client: client, Budget: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()

	// The gate holds one call.
	var group sync.WaitGroup
	group.Go(func() {
		if err := r.Evaluate(context.Background(), oneCount("s", 1000), new(store.Answers)); err != nil {
			t.Error(err)
		}
	})
	<-g.entered
	for range 50 {
		ctx, cancel := context.WithTimeout(context.Background(), 6*time.Millisecond) // 5 of them are the margin for the reply
		// A call is not even queued if the first replies of Redis took longer than it has.
		err := r.Evaluate(ctx, oneCount("s", 1000), new(store.Answers))
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, redisconn.ErrUnsent) {
			t.Errorf("error %v; want the deadline's, or that the call was not sent", err)
		}
		cancel()
	}
	close(g.open)
	group.Wait()

	p, a := oneCount("s", 1000), new(store.Answers)
	p.Op = store.Peek
	if err := r.Evaluate(context.Background(), p, a); err != nil {
		t.Fatal(err)
	}
	// The first call that finds the held one overdue is sent, too.
	if hits := a.Sets[0].Hits; hits < 1 || hits > 2 {
		t.Errorf("%d hits are counted; want the 1 or 2 that were sent: calls that ended before that count nothing", hits)
	}
}

func BenchmarkRedisCrowd(b *testing.B) {
	server := storetest.StartServer(b)
	r := server.Open(b)
	b.SetParallelism(32)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		a, p := new(store.Answers), oneCount("s", 1<<30)
		for pb.Next() {
			if err := r.Evaluate(context.Background(), p, a); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
