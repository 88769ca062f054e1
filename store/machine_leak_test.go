package store_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koalagate/koalagate/store"
	"github.com/koalagate/koalagate/store/storetest"
)

// TestLongLeakLogs compares the stores where a leak counter has so many runs
// that Redis keeps them in a log of their own: filled, pruned, refunded far
// back, undone, tidied, filled again.
func TestLongLeakLogs(t *testing.T) {
	server := storetest.StartServer(t)
	memory, redis := store.NewMemory(store.MemoryOptions{}), server.Open(t)
	defer memory.Close()
	random := rand.New(rand.NewPCG(1, 2))
	now := int64(1_793_505_600_000)
	for i := range 20_000 {
		now += random.Int64N(8)
		weight := 1 + random.Int64N(3)
		op := store.Take
		switch n := random.IntN(1000); {
		case n < 100:
			op = store.Browse
			weight = random.Int64N(5000)
		case n < 130:
			op, weight = store.Refund, random.Int64N(20)
		case n < 133:
			op, weight = store.Refund, random.Int64N(4000)
		case n < 180:
			op = store.Update
		case n < 182:
			now += random.Int64N(15_000)
		case n < 190:
			now -= random.Int64N(100)
		case n == 999:
			op = store.Reset
		}
		leak := store.Rule{Subject: []byte("s"), Return: 1, Method: store.Leak, Time: 10, Count: 4000, Weight: weight}
		other := leak
		other.Return, other.Count, other.Time = 2, 100, 3
		p := &store.Plan{Op: op, Now: now, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{leak}}}}
		if random.IntN(5) == 0 { // another set, which often refuses
			p.Sets = append(p.Sets, store.Set{Allows: true, Refund: random.IntN(3) == 0, Rules: []store.Rule{leak, other}})
		}
		var want, got store.Answers
		if err := memory.Evaluate(context.Background(), p, &want); err != nil {
			t.Fatal(err)
		}
		if err := redis.Evaluate(context.Background(), p, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(settle(&want), settle(&got)); diff != "" {
			t.Fatalf("step %d: %s: redis differs from memory (-memory +redis):\n%s", i, describe(p), diff)
		}
	}
}
