package store_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/koalagate/koalagate/store"
	"github.com/koalagate/koalagate/store/storetest"
)

// partly has a Cluster go on with the slots that it has.
var partly = []string{"--cluster-require-full-coverage", "no"}

// A node that hangs takes no time from the others: neither at the start, where
// it is a seed and the owner of the first slots, nor at a return.
func TestOneHungNodeLeavesTheOthers(t *testing.T) {
	t.Parallel()
	c := storetest.StartCluster(t, 3, false, partly...)
	c.Nodes[0].Pause()
	defer c.Nodes[0].Resume()
	const budget = 500 * time.Millisecond
	r, err := store.NewRedis(store.RedisOptions{URL: c.URL(), Budget: budget})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for i := range 3 {
		if err := r.Check(context.Background()); err != nil {
			t.Errorf("check %d: %v; two of three nodes can count", i, err)
		}
	}
	s := storetest.OpenRescue(t, store.RedisOptions{URL: c.URL(), Budget: budget}, store.RescueOptions{})
	if state := s.State(); state.Degraded {
		t.Errorf("Redis is away with %v; two of three nodes can count", state.Err)
	}
	for slot, hangs := range map[int]bool{100: true, 9000: false, 16000: false} {
		if _, degraded := takeBy(t, s, store.Rule{Subject: subjectIn(slot), Method: store.Count, Time: 60, Count: 9, Weight: 1}); degraded != hangs {
			t.Errorf("slot %d, whose node hangs: %v: answered in process: %v", slot, hangs, degraded)
		}
	}
}

// subjectIn is one whose counter lies near the slot, in the same third of them.
func subjectIn(slot int) []byte {
	for i := 0; ; i++ {
		subject := "u" + strconv.Itoa(i)
		if off := store.SlotOf(store.Key(store.DefaultPrefix, subject)) - slot; -100 <= off && off <= 100 {
			return []byte(subject)
		}
	}
}
