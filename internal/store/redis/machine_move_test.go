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

// TestLongLogsMove compares the stores on a leak counter with so many active runs
// that Redis moves its log piece by piece: while it is read, pruned by large steps,
// refunded into the moved pieces, and undone.
func TestLongLogsMove(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t)
	local := memory.New(memory.Options{})
	defer local.Close()
	r, err := redis.Open(redis.Options{URL: server.URL(), Prefix: "moves", Budget: time.Minute, Linger: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	client := server.Client()
	defer client.Close()
	random := rand.New(rand.NewPCG(1, 2))
	leak := store.Rule{Subject: []byte("s"), Return: 1, Method: store.Leak, Time: 4, Count: 6000}
	key, longest, steps := redis.Key("moves", "s")+":11", int64(0), 11_000
	if *long {
		steps = 28_000
	}
	for i, at := 0, int64(now); i < steps; i++ {
		at++
		op, weight, sets := store.Take, int64(1), 1
		switch n := random.IntN(1000); {
		case n < 30:
			op, weight = store.Browse, random.Int64N(6000) // often refused, which searches the log
		case n < 32:
			op, weight = store.Refund, random.Int64N(100)
		case n < 33:
			at += random.Int64N(1000)
		case n < 40:
			at -= random.Int64N(5)
		case n < 45:
			sets = 2 // the second set refuses, which undoes the first
		}
		p := &store.Plan{Op: op, Now: at, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{weighs(leak, weight)}}}}
		if sets == 2 {
			p.Sets = append(p.Sets, store.Set{Rules: []store.Rule{weighs(leak, 2)}})
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
		longest = max(longest, client.StrLen(context.Background(), key).Val())
	}
	// Up to 4000 runs of 13 bytes are active. The runs that have left are at most
	// an eighth more than these, and some; without moving, they would be 10 000.
	if longest < 4000*13 || longest > 9500*13 {
		t.Errorf("the log had up to %d bytes: it is never used, or never moves", longest)
	}
}
