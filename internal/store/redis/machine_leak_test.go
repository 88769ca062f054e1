package redis_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/store/storetest/machine"
)

// TestLongLeakLogs compares the stores on a leak counter with so many runs that
// Redis keeps them in a log: filled, pruned, refunded far back, undone, compacted
// and filled again. The clock of the plans is much faster than that of Redis, so
// that no key expires meanwhile.
func TestLongLeakLogs(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t)
	local, r := memory.New(memory.Options{}), server.Open(t)
	defer local.Close()
	random := rand.New(rand.NewPCG(1, 2))
	client := server.Client()
	defer client.Close()
	now, longest, steps := int64(1_793_505_600_000), int64(0), 8000
	if *long {
		steps = 40_000
	}
	for i := range steps {
		now += random.Int64N(480)
		weight := 1 + random.Int64N(3)
		op := store.Take
		switch n := random.IntN(10_000); {
		case n < 1000:
			op, weight = store.Browse, random.Int64N(5000)
		case n < 1200:
			op, weight = store.Refund, random.Int64N(20)
		case n < 1205:
			op, weight = store.Refund, random.Int64N(4000)
		case n < 1700:
			op = store.Update
		case n < 1703:
			now += random.Int64N(900_000)
		case n < 1780:
			now -= random.Int64N(6000)
		case n == 9999:
			op = store.Reset
		}
		leak := store.Rule{Subject: []byte("s"), Return: 1, Method: store.Leak, Time: 600, Count: 4000, Weight: weight}
		other := leak
		other.Return, other.Count, other.Time = 2, 100, 180
		p := &store.Plan{Op: op, Now: now, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{leak}}}}
		if random.IntN(5) == 0 { // another set, which often refuses
			p.Sets = append(p.Sets, store.Set{Allows: true, Refund: random.IntN(3) == 0, Rules: []store.Rule{leak, other}})
		}
		var want, got store.Answers
		if err := local.Evaluate(context.Background(), p, &want); err != nil {
			t.Fatal(err)
		}
		if err := r.Evaluate(context.Background(), p, &got); err != nil {
			t.Fatal(err)
		}
		if !machine.Alike(want.Sets, got.Sets) || want.Now != got.Now {
			t.Fatalf("step %d: %s: redis differs from memory (-memory +redis):\n%s", i, machine.Describe(p), cmp.Diff(machine.Normalize(&want), machine.Normalize(&got)))
		}
		longest = max(longest, client.StrLen(context.Background(), redis.Key(r.Prefix(), "s")+":11").Val())
	}
	// 13 bytes per run; the log may hold as many runs again that have left.
	if longest < 1500*13 || longest > 2*4000*13 {
		t.Errorf("the log had up to %d bytes: it is never used, or never compacted", longest)
	}
}

// TestUpdatesBeyondALeakLimitTakeBoundedMemory updates far beyond the limit: the
// stores answer alike and keep few runs, and no hit leaves early.
func TestUpdatesBeyondALeakLimitTakeBoundedMemory(t *testing.T) {
	server := storetest.StartServer(t)
	local, r := memory.New(memory.Options{}), server.Open(t)
	defer local.Close()
	client := server.Client()
	defer client.Close()
	leak := store.Rule{Subject: []byte("s"), Return: 1, Method: store.Leak, Time: 600, Count: 5, Weight: 1}
	const begin, updates = int64(1_793_505_600_000), 3000
	var want, got store.Answers
	ask := func(op store.Op, now int64) store.Answer {
		p := &store.Plan{Op: op, Now: now, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{leak}}}}
		if err := local.Evaluate(context.Background(), p, &want); err != nil {
			t.Fatal(err)
		}
		if err := r.Evaluate(context.Background(), p, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(machine.Normalize(&want), machine.Normalize(&got)); diff != "" {
			t.Fatalf("operation %d at %d: redis differs from memory (-memory +redis):\n%s", op, now-begin, diff)
		}
		return got.Sets[0]
	}
	for i := range int64(updates) {
		ask(store.Update, begin+i*100)
	}
	if a := ask(store.Peek, begin+updates*100); a.Hits != updates {
		t.Errorf("%d hits are counted, want %d", a.Hits, updates)
	}
	key := redis.Key(r.Prefix(), "s")
	size := client.StrLen(context.Background(), key).Val() + client.StrLen(context.Background(), key+":11").Val()
	if size > 16_000 {
		t.Errorf("the counter takes %d bytes, want about 1029 runs of 13", size)
	}
	for now := begin + 600_000; now < begin+(updates-1)*100+600_000; now += 10_000 {
		left := updates - (now-begin-600_000)/100 - 1
		if a := ask(store.Peek, now); a.Hits < left {
			t.Fatalf("at %d %d hits are counted, want %d or more", now-begin, a.Hits, left)
		}
	}
	if a := ask(store.Peek, begin+(updates-1)*100+600_000); a.Hits != 0 {
		t.Errorf("%d hits are counted after all have left", a.Hits)
	}
}

// TestLogsAreCompacted takes at a steady pace: the log stays within twice the runs
// of the window, and is deleted with its last run.
func TestLogsAreCompacted(t *testing.T) {
	t.Parallel()
	s := openRig(t, storetest.StartServer(t), func(o *redis.Options) { o.Linger = time.Hour })
	ctx, log := context.Background(), s.key+":11"
	leak := store.Rule{Subject: []byte("u"), Return: 1, Method: store.Leak, Time: 10, Count: 2000, Weight: 1}
	const takes, window, step = 6000, 1000, 10
	for i := range int64(takes) {
		if a := s.do(store.Take, now+i*step, leak); i >= window && a.Remaining != 2000-window {
			t.Fatalf("take %d: %d remaining, want %d", i, a.Remaining, 2000-window)
		}
	}
	if size := s.client.StrLen(ctx, log).Val(); size < window*13*9/10 || size > 2*(window+1024)*13 {
		t.Errorf("the log has %d bytes for %d runs in use", size, window)
	}
	s.do(store.Take, now+takes*step+20_000, leak)
	if n := s.client.Exists(ctx, log).Val(); n != 0 {
		t.Error("the log outlives its last run")
	}
}
