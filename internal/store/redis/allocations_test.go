//go:build !race

// Under the race detector pools drop objects at random, so allocations cannot be
// counted.

package redis_test

import (
	"context"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// TestAllocations bounds the allocations per call, with a margin of a tenth. A lone
// call to Redis bears the whole round trip.
func TestAllocations(t *testing.T) {
	memory := memory.New(memory.Options{})
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
		"in process":                  {taking(memory, 1<<30), 0},
		"redis, a lone call":          {taking(r, 1<<30), 15},
		"redis, a remembered refusal": {taking(r, 1), 5},
	} {
		if got := testing.AllocsPerRun(500, c.call); got > c.most {
			t.Errorf("%s: %v allocations; want at most %v", name, got, c.most)
		}
	}
}
