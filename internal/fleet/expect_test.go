package fleet

import (
	"slices"
	"sync"
	"testing"

	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/rules"
)

// A version is expected before an instance is ready for it, so that what depends on its rules
// is prepared at the instant, and no longer once it is dropped.
func TestVersionsAreExpected(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t)
	r := openRecords(t, server.URL())
	var mu sync.Mutex
	var expected []*rules.Set
	i := startInstance(t, r, func(o *MemberOptions) {
		o.Expect = func(set *rules.Set) {
			mu.Lock()
			defer mu.Unlock()
			expected = append(expected, set)
		}
	})
	livingInstances(t, r, 1)
	everywhere(t, r, mustPropose(t, r, 1), i)
	everywhere(t, r, mustPropose(t, r, 2), i)
	i.mu.Lock()
	applied := slices.Clone(i.sets)
	i.mu.Unlock()
	eventually(t, "the former version is dropped", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(expected) == 3
	})
	if want := append(applied, nil); len(applied) != 2 || !slices.Equal(expected, want) {
		t.Errorf("expected %v; want %v", expected, want)
	}
}
