package store_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/store"
	"github.com/koalagate/koalagate/store/storetest"
)

func TestScriptFlushInTheMiddle(t *testing.T) {
	s := openShelf(t, storetest.StartServer(t))
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for range 50 {
				s.do(store.Update, now, rules()[0])
			}
		})
	}
	for range 20 {
		if err := s.client.ScriptFlush(context.Background()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	callers.Wait()
	if a := s.do(store.Peek, now, rules()[0]); a.Hits != 200 {
		t.Errorf("%d hits, want 200: a call was lost or counted twice", a.Hits)
	}
}

func TestRedisClockIsRead(t *testing.T) {
	s := openShelf(t, storetest.StartServer(t))
	var a store.Answers
	before := time.Now().UnixMilli()
	p := &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: rules()[:1]}}}
	if err := s.Evaluate(context.Background(), p, &a); err != nil {
		t.Fatal(err)
	}
	if after := time.Now().UnixMilli(); a.Now < before || a.Now > after {
		t.Errorf("answered at %d, want between %d and %d", a.Now, before, after)
	}
}

func TestDaysAreSentAnewWhereNoneFits(t *testing.T) {
	s := openShelf(t, storetest.StartServer(t))
	for _, skew := range []int64{-40 * 86_400_000, 40 * 86_400_000, 3 * 86_400_000, 0} {
		s.SetSkew(skew)
		daily := store.Rule{Subject: []byte("u"), Return: 1, Method: store.Count, Weight: 1, Time: store.Day, Count: 9}
		var a store.Answers
		p := &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{daily}}}}
		if err := s.Evaluate(context.Background(), p, &a); err != nil {
			t.Fatalf("skew %d: %v", skew, err)
		}
		if end := a.Now + a.Sets[0].Reset; end%86_400_000 != 0 || end-a.Now > 86_400_000 {
			t.Errorf("skew %d: the day ends at %d, it is %d", skew, end, a.Now)
		}
		if got := s.Skew(); got < -1000 || got > 1000 {
			t.Errorf("skew %d: afterwards it is taken to be %d ms", skew, got)
		}
	}
	daily := store.Rule{Subject: []byte("u"), Return: 1, Method: store.Count, Weight: 1, Time: store.Day, Count: 9}
	if a := s.do(store.Peek, 0, daily); a.Hits != 4 {
		t.Errorf("%d hits, want 4: an answer without a fitting day counts nothing", a.Hits)
	}
}

func TestTheBudgetHolds(t *testing.T) {
	server := storetest.StartServer(t)
	const budget = 3 * slack
	r, err := store.NewRedis(store.RedisOptions{URL: server.URL(), Budget: budget})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Check(context.Background()); err != nil {
		t.Fatal(err)
	}
	server.Pause()
	defer server.Resume()
	for _, c := range []struct {
		name     string
		deadline time.Duration // of the caller; 0 for none
		want     time.Duration
	}{
		{"the setting's", 0, budget},
		{"a caller's, less 5 ms", 100 * time.Millisecond, 95 * time.Millisecond},
		{"a caller's that is longer", 10 * time.Second, budget},
		{"nothing is left", 4 * time.Millisecond, 0},
	} {
		ctx, cancel := context.Background(), func() {}
		if c.deadline > 0 {
			ctx, cancel = context.WithTimeout(ctx, c.deadline)
		}
		begin := time.Now()
		p := &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: rules()}}}
		err := r.Evaluate(ctx, p, new(store.Answers))
		took := time.Since(begin)
		cancel()
		if err == nil {
			t.Errorf("%s: a Redis that hangs answered", c.name)
		}
		if took < c.want-time.Millisecond || took > c.want+slack {
			t.Errorf("%s: it took %v, want %v: %v", c.name, took, c.want, err)
		}
	}
}

func TestATimedOutTakeIsNotRepeated(t *testing.T) {
	server := storetest.StartServer(t)
	r, err := store.NewRedis(store.RedisOptions{URL: server.URL(), Budget: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	take := func(op store.Op) (store.Answers, error) {
		var a store.Answers
		err := r.Evaluate(context.Background(), &store.Plan{Op: op, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: rules()[:1]}}}, &a)
		return a, err
	}
	if _, err := take(store.Take); err != nil {
		t.Fatal(err)
	}
	server.Pause()
	if _, err := take(store.Take); err == nil {
		t.Error("a Redis that hangs answered")
	}
	server.Resume()
	time.Sleep(50 * time.Millisecond)
	a, err := take(store.Peek)
	if err != nil {
		t.Fatal(err)
	}
	if hits := a.Sets[0].Hits; hits > 2 {
		t.Errorf("%d hits of two takes", hits)
	}
}

func TestRedisOptions(t *testing.T) {
	for name, c := range map[string]struct {
		options store.RedisOptions
		want    string
	}{
		"no URL":            {store.RedisOptions{}, "want redis://"},
		"a blank":           {store.RedisOptions{URL: "redis://h", Prefix: "a b"}, "byte 1 is ' '"},
		"a brace":           {store.RedisOptions{URL: "redis://h", Prefix: "a{"}, "without blanks and braces"},
		"a long prefix":     {store.RedisOptions{URL: "redis://h", Prefix: strings.Repeat("p", 65)}, "65 bytes; want 1 … 64"},
		"a budget below 0":  {store.RedisOptions{URL: "redis://h", Budget: -1}, "want more than 0"},
		"a way of batching": {store.RedisOptions{URL: "redis://h", Batching: "most"}, "want script, pipeline or off"},
	} {
		r, err := store.NewRedis(c.options)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
		if r != nil {
			t.Errorf("%s: a store beside the error", name)
		}
	}
}

func TestAClientOfTheCallers(t *testing.T) {
	server := storetest.StartServer(t)
	o := server.Client().Options()
	client := redis.NewClient(&redis.Options{Network: o.Network, Addr: o.Addr, MaxRetries: -1})
	defer client.Close()
	r, err := store.NewRedis(store.RedisOptions{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Check(context.Background()); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := client.Ping(context.Background()).Err(); err != nil {
		t.Errorf("the store closed its caller's client: %v", err)
	}
}

func TestCheckSaysWhatIsInTheWay(t *testing.T) {
	server := storetest.StartServer(t)
	r, err := store.NewRedis(store.RedisOptions{URL: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	server.Kill()
	if err := r.Check(context.Background()); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("without a server: %v", err)
	}
	server.Start()
	if err := r.Check(context.Background()); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.Check(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("of a caller that is gone: %v", err)
	}
}

// A budget that is no longer than what is kept of a caller's deadline is one
// to find Redis with all the same.
func TestCheckWithASmallBudget(t *testing.T) {
	server := storetest.StartServer(t)
	r := server.Open(t, func(o *store.RedisOptions) { o.Budget = 5 * time.Millisecond })
	storetest.Eventually(t, func() error { return r.Check(context.Background()) }) // the machine may be busy
}

// BenchmarkRedis also tells what a call costs in Redis itself, socket aside.
func BenchmarkRedis(b *testing.B) {
	server := storetest.StartServer(b)
	r, client := server.Open(b), server.Client()
	defer client.Close()
	all := rules()
	for i := range all {
		all[i].Count, all[i].Burst = 1<<30, 1<<30
	}
	apart := slices.Repeat(all[:1], 4)
	for i := range apart {
		apart[i].Subject = []byte{byte('a' + i)}
	}
	for _, c := range []struct {
		name  string
		rules []store.Rule
	}{{"count", all[:1]}, {"leak", all[2:3]}, {"four methods", all}, {"four subjects", apart}} {
		b.Run(c.name, func(b *testing.B) {
			p := &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: c.rules}}}
			a := new(store.Answers)
			client.ConfigResetStat(context.Background())
			b.ReportAllocs()
			for b.Loop() {
				if err := r.Evaluate(context.Background(), p, a); err != nil {
					b.Fatal(err)
				}
			}
			stats := client.Info(context.Background(), "commandstats").Val()
			_, stats, _ = strings.Cut(stats, "cmdstat_evalsha:")
			_, stats, _ = strings.Cut(stats, "usec_per_call=")
			stats, _, _ = strings.Cut(stats, ",")
			if µs, err := strconv.ParseFloat(stats, 64); err == nil {
				b.ReportMetric(µs, "redis-µs/op")
			}
		})
	}
}
