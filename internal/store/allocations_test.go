//go:build !race

package store_test

// The race detector has pools forget at random what they hold, so that there is
// nothing to count with it.

import (
	"context"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// TestAllocations holds the stores to what they allocate for a call, with a
// tenth of room. A lone call of Redis's pays for the round trip by itself.
func TestAllocations(t *testing.T) {
	memory := store.NewMemory(store.MemoryOptions{})
	defer memory.Close()
	r := storetest.StartServer(t).Open(t)
	taking := func(s store.Store, limit int64) func() {
		p, a := &store.Plan{Op: store.Take, Zone: time.UTC, Sets: oneSet(costRule(0, 1, limit))}, new(store.Answers)
		return func() {
			if err := s.Evaluate(context.Background(), p, a); err != nil {
				t.Error(err)
			}
		}
	}
	for name, c := range map[string]struct {
		call func()
		most float64
	}{
		"in process":                          {taking(memory, 1<<30), 0},
		"redis, a lone call":                  {taking(r, 1<<30), 15},
		"redis, a refusal that is remembered": {taking(r, 1), 5},
	} {
		if got := testing.AllocsPerRun(500, c.call); got > c.most {
			t.Errorf("%s: %v allocations; want at most %v", name, got, c.most)
		}
	}
}
