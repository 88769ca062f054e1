package statistics

import (
	"testing"

	"github.com/koalagate/koalagate/internal/envoylimits"
)

// Paths with values that clients choose are bounded, and what is beyond the bound is counted under
// the path of the limit, whether a configuration or a descriptor states it.
func TestPathsOfClientsAreBounded(t *testing.T) {
	for name, number := range map[string]int{"configured": 0, "stated by a descriptor": -1} {
		s, l := New(0.8), &envoylimits.Limit{Number: number, Path: "d.user", Requests: 5}
		s.Counted("d.user_a", l, 5, 1, 0, 1)
		s.size.Store(MaxPaths)
		s.Counted("d.user_a", l, 5, 1, 1, 2)
		s.Counted("d.user_b", l, 5, 3, 0, 3)
		s.Subtracted("d.user_c", l, 2)
		known, own := s.of("d.user_a", l), s.of("d.user", l)
		if known.total.Load() != 2 || own.total.Load() != 3 || own.negative.Load() != 2 || s.size.Load() != MaxPaths+1 {
			t.Errorf("%s: %d hits of the first path, %d and %d given back of the limit, %d paths; want 2, 3, 2 and %d",
				name, known.total.Load(), own.total.Load(), own.negative.Load(), s.size.Load(), MaxPaths+1)
		}
	}
}

// Keys of limits that descriptors state are bounded, too.
func TestKeysOfGatewaysAreBounded(t *testing.T) {
	s, l := New(0.8), &envoylimits.Limit{Number: -1, Path: "d.any", Requests: 5}
	s.size.Store(2 * MaxPaths)
	s.Counted("d.any_a", l, 5, 1, 0, 1)
	if _, exists := s.paths.Load("d.any"); exists || s.size.Load() != 2*MaxPaths {
		t.Errorf("%d paths; want %d", s.size.Load(), 2*MaxPaths)
	}
	if s.Counted("d.ten", &envoylimits.Limit{Path: "d.ten", Requests: 10}, 10, 1, 0, 1); s.size.Load() != 2*MaxPaths+1 {
		t.Error("a configured limit has no counts")
	}
}
