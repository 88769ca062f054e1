package redis_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

func TestScriptFlushLosesNoCall(t *testing.T) {
	s := openRig(t, storetest.StartServer(t))
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
	s := openRig(t, storetest.StartServer(t))
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

func TestDaysAreSentAgainIfNoneFits(t *testing.T) {
	s := openRig(t, storetest.StartServer(t))
	zone := storetest.Noon() // the day does not end meanwhile
	_, seconds := time.Now().In(zone).Zone()
	east := int64(seconds) * 1000
	for _, skew := range []int64{-40 * 86_400_000, 40 * 86_400_000, 3 * 86_400_000, 0} {
		s.SetSkew(skew)
		daily := store.Rule{Subject: []byte("u"), Return: 1, Method: store.Count, Weight: 1, Time: store.Day, Count: 9}
		var a store.Answers
		begin := time.Now()
		p := &store.Plan{Op: store.Take, Zone: zone, Sets: []store.Set{{Allows: true, Rules: []store.Rule{daily}}}}
		if err := s.Evaluate(context.Background(), p, &a); err != nil {
			t.Fatalf("skew %d: %v", skew, err)
		}
		if end := a.Now + a.Sets[0].Reset; (end+east)%86_400_000 != 0 || end-a.Now > 86_400_000 {
			t.Errorf("skew %d: the day ends at %d; now is %d", skew, end, a.Now)
		}
		// The answer may have arrived late.
		if got, late := s.Skew(), time.Since(begin).Milliseconds(); got < -1000-late || got > 1000 {
			t.Errorf("skew %d: afterwards the measured skew is %d ms", skew, got)
		}
	}
	daily := store.Rule{Subject: []byte("u"), Return: 1, Method: store.Count, Weight: 1, Time: store.Day, Count: 9}
	var a store.Answers
	p := &store.Plan{Op: store.Peek, Zone: zone, Sets: []store.Set{{Allows: true, Rules: []store.Rule{daily}}}}
	if err := s.Evaluate(context.Background(), p, &a); err != nil {
		t.Fatal(err)
	}
	if hits := a.Sets[0].Hits; hits != 4 {
		t.Errorf("%d hits, want 4: a reply without a fitting day counts nothing", hits)
	}
}

// TestBudgetAndDeadlineBoundCalls checks that a call ends with the budget or with
// its caller's deadline, whichever is first. The other one is so far away that even
// a slow machine cannot confuse them.
func TestBudgetAndDeadlineBoundCalls(t *testing.T) {
	server := storetest.StartServer(t)
	const soon = 300 * time.Millisecond
	for _, c := range []struct {
		name             string
		budget, deadline time.Duration // of the store and of the caller; 0 for none
		want             time.Duration
	}{
		{"the budget", soon, 0, soon},
		{"a deadline, less 5 ms", time.Minute, soon, soon - 5*time.Millisecond},
		{"a deadline beyond the budget", soon, time.Minute, soon},
		{"a deadline that leaves nothing", time.Minute, 4 * time.Millisecond, -time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := server.Open(t, func(o *redis.Options) { o.Budget = c.budget })
			storetest.Eventually(t, func() error { return r.Check(context.Background()) }) // the machine may be busy
			server.Pause()
			defer server.Resume()
			begin := time.Now()
			ctx, cancel := context.Background(), func() {}
			if c.deadline > 0 {
				ctx, cancel = context.WithDeadline(ctx, begin.Add(c.deadline))
			}
			defer cancel()
			if got := r.Deadline(ctx, begin).Sub(begin); got != c.want {
				t.Errorf("a call has %v; want %v", got, c.want)
			}
			p := &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: rules()}}}
			err := r.Evaluate(ctx, p, new(store.Answers))
			if err == nil {
				t.Error("a hanging Redis answered")
			}
			if took := time.Since(begin); took < c.want-time.Millisecond || took > time.Minute/2 {
				t.Errorf("it took %v, want %v: %v", took, c.want, err)
			}
		})
	}
}

func TestTimedOutTakeIsNotRepeated(t *testing.T) {
	server := storetest.StartServer(t)
	client := goredis.NewClient(&goredis.Options{Network: "unix", Addr: strings.TrimPrefix(server.URL(), "unix://"), MaxRetries: -1, ContextTimeoutEnabled: true})
	defer client.Close()
	// A repetition needs a second open connection: a hanging Redis opens none.
	first, second := client.Conn(), client.Conn()
	for _, c := range []*goredis.Conn{first, second} {
		if err := c.Ping(context.Background()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = first.Close(), second.Close()
	r := server.Open(t, func(o *redis.Options) { o.Client = client })
	take := func(ctx context.Context, op store.Op) (store.Answers, error) {
		var a store.Answers
		err := r.Evaluate(ctx, &store.Plan{Op: op, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: rules()[:1]}}}, &a)
		return a, err
	}
	if _, err := take(context.Background(), store.Take); err != nil {
		t.Fatal(err)
	}
	server.Pause()
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Millisecond)
	defer cancel()
	if _, err := take(ctx, store.Take); err == nil {
		t.Error("a hanging Redis answered")
	}
	server.Resume()
	storetest.Eventually(t, func() error {
		if n := r.Load().Flying; n > 0 {
			return fmt.Errorf("%d round trips are under way", n)
		}
		return nil
	})
	if err := client.Ping(context.Background()).Err(); err != nil { // Redis has carried out what was sent before
		t.Fatal(err)
	}
	a, err := take(context.Background(), store.Peek)
	if err != nil {
		t.Fatal(err)
	}
	if hits := a.Sets[0].Hits; hits > 2 {
		t.Errorf("%d hits of two takes", hits)
	}
}

func TestOpenRejectsInvalidOptions(t *testing.T) {
	for name, c := range map[string]struct {
		options redis.Options
		want    string
	}{
		"no URL":           {redis.Options{}, "want redis://"},
		"a blank":          {redis.Options{URL: "redis://h", Prefix: "a b"}, "byte 1 is ' '"},
		"a brace":          {redis.Options{URL: "redis://h", Prefix: "a{"}, "without blanks and braces"},
		"a long prefix":    {redis.Options{URL: "redis://h", Prefix: strings.Repeat("p", 65)}, "65 bytes; want 1 … 64"},
		"a budget below 0": {redis.Options{URL: "redis://h", Budget: -1}, "must be more than 0"},
		"unknown batching": {redis.Options{URL: "redis://h", Batching: "most"}, "want script, pipeline or off"},
	} {
		r, err := redis.Open(c.options)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
		if r != nil {
			t.Errorf("%s: a store and an error", name)
		}
	}
}

func TestCloseKeepsTheCallersClient(t *testing.T) {
	server := storetest.StartServer(t)
	o := server.Client().Options()
	client := goredis.NewClient(&goredis.Options{Network: o.Network, Addr: o.Addr, MaxRetries: -1})
	defer client.Close()
	r, err := redis.Open(redis.Options{Client: client, Budget: time.Minute})
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

func TestCheckReportsTheCause(t *testing.T) {
	server := storetest.StartServer(t)
	r, err := redis.Open(redis.Options{URL: server.URL(), Budget: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	server.Kill()
	if err := r.Check(context.Background()); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("server stopped: %v", err)
	}
	server.Start()
	if err := r.Check(context.Background()); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.Check(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled context: %v", err)
	}
}

// TestCheckWithASmallBudget checks that Check can succeed with a budget no longer
// than the margin that is subtracted from a caller's deadline.
func TestCheckWithASmallBudget(t *testing.T) {
	server := storetest.StartServer(t)
	r := server.Open(t, func(o *redis.Options) { o.Budget = 5 * time.Millisecond })
	storetest.Eventually(t, func() error { return r.Check(context.Background()) }) // the machine may be busy
}

// BenchmarkRedis also reports the time that a call takes in Redis itself, without
// the socket.
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
