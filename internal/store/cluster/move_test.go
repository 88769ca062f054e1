package cluster_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/cluster"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/remote"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// TestSlotsMoveUnderLoad moves the slots of counters under takes, some of which use
// two counters in different slots, and in the middle of a move. Afterwards the
// counters equal the records, and no call has failed.
func TestSlotsMoveUnderLoad(t *testing.T) {
	t.Parallel()
	ways := storetest.Ways(*long)
	if !*long {
		ways = ways[:1]
	}
	storetest.InWays(t, ways, slotsMove)
}

func slotsMove(t *testing.T, way storetest.Way) {
	size, rounds := 3, 2
	if *long {
		size, rounds = 6, way.Of(20)
	}
	c := storetest.StartCluster(t, size, false)
	r := c.Open(t, redis.Options{Prefix: "moves"}, way)
	b := &books{admitted: map[string]int64{}, faults: map[string]int{}}
	stop := make(chan struct{})
	var callers sync.WaitGroup
	for n := range 8 {
		callers.Go(func() { b.take(r, n, stop) })
	}
	joined := c.Join() // it has no slot yet, and is named by ASK only
	begin := time.Now()
	for round := 0; round < rounds || !repliesAll(c.Errors()) && time.Since(begin) < time.Minute; round++ { // more if the callers are slow
		for i := range movers {
			slot := cluster.SlotOf(cluster.Key("moves", mover(i)))
			to := c.Nodes[(round+i)%len(c.Nodes)]
			if round == 0 && i%3 == 0 {
				to = joined
			}
			c.Move(slot, to, func() { time.Sleep(3 * time.Millisecond) })
		}
	}
	close(stop)
	callers.Wait()
	r.AwaitUndone()
	t.Logf("%d takes while %d slots moved %d times or more: %d refused, %d failed", b.takes, movers, rounds, b.refused, len(b.faults))
	for fault, n := range b.faults {
		t.Errorf("%d times: %s", n, fault)
	}
	b.audit(t, r)
	replies := c.Errors()
	t.Logf("error replies of the nodes: %v", replies)
	if !repliesAll(replies) {
		t.Error("a kind of reply about moves is missing: the moves test nothing")
	}
	if replies["CROSSSLOT"] > 0 {
		t.Errorf("a call contained keys of two slots")
	}
}

// repliesAll reports whether the nodes replied in every way that a move causes.
func repliesAll(replies map[string]int) bool {
	return replies["MOVED"] > 0 && replies["ASK"] > 0 && replies["TRYAGAIN"] > 0
}

// movers is the number of subjects.
const movers = 12

func mover(i int) string { return fmt.Sprintf("u%d", i) }

// movingRules returns rules with long windows: one with a log, one whose limit is
// reached, one bucket.
func movingRules(subject string) []store.Rule {
	return []store.Rule{
		{Subject: []byte(subject), Return: 1, Method: store.Leak, Weight: 1, Time: 3600, Count: 1 << 30},
		{Subject: []byte(subject), Return: 2, Method: store.Count, Weight: 1, Time: 3600, Count: 400},
		{Subject: []byte(subject), Return: 3, Method: store.Token, Weight: 1, Time: 366 * 86400, Count: 1, Burst: 500},
	}
}

// books record the answers that the callers received.
type books struct {
	mu       sync.Mutex
	takes    int
	refused  int
	admitted map[string]int64
	faults   map[string]int
}

func (b *books) take(r remote.Store, n int, stop chan struct{}) {
	var a store.Answers
	for i := n; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		names := []string{mover(i % movers)}
		if i%3 == 0 {
			names = append(names, mover((i*7+1)%movers))
		}
		names = slices.Compact(names)
		set := store.Set{Allows: true}
		for _, name := range names {
			set.Rules = append(set.Rules, movingRules(name)...)
		}
		err := r.Evaluate(context.Background(), &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{set}}, &a)
		b.mu.Lock()
		b.takes++
		switch {
		case err != nil:
			b.faults[err.Error()]++
		case a.Sets[0].Decider >= 0:
			b.refused++
		default:
			for _, name := range names {
				b.admitted[name]++
			}
		}
		b.mu.Unlock()
	}
}

// audit compares the counters with the books.
func (b *books) audit(t *testing.T, r remote.Store) {
	t.Helper()
	for i := range movers {
		for _, rule := range movingRules(mover(i)) {
			var a store.Answers
			p := &store.Plan{Op: store.Peek, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{rule}}}}
			if err := r.Evaluate(context.Background(), p, &a); err != nil {
				t.Fatal(err)
			}
			got, want := a.Sets[0].Hits, b.admitted[mover(i)]
			// Refills before a give-back are not given back, and leave a partial token.
			partial := rule.Method == store.Token && got == want+1
			if got != want && !partial || want > 400 {
				t.Errorf("%s, rule %d: %d hits are counted, %d were admitted", mover(i), rule.Return, got, want)
			}
		}
	}
}
