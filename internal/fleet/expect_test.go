package fleet

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	goredis "github.com/redis/go-redis/v9"

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
	var expected, forgotten []*rules.Set
	note := func(to *[]*rules.Set) func(*rules.Set) {
		return func(set *rules.Set) {
			mu.Lock()
			defer mu.Unlock()
			*to = append(*to, set)
		}
	}
	i := startInstance(t, r, func(o *MemberOptions) {
		o.Expect, o.Forget = func(_ context.Context, set *rules.Set) { note(&expected)(set) }, note(&forgotten)
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
		return len(forgotten) == 1
	})
	if len(applied) != 2 || !slices.Equal(expected, applied) || forgotten[0] != applied[0] {
		t.Errorf("expected %v, forgotten %v; want %v, and the first of them forgotten", expected, forgotten, applied)
	}
}

// slowPrune makes a client wait whenever it reads the history.
type slowPrune struct {
	began, end chan struct{} // closed at the first time, and by the test
	once       sync.Once
}

func (s *slowPrune) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (s *slowPrune) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

func (s *slowPrune) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, c goredis.Cmder) error {
		if args := c.Args(); len(args) > 1 && args[1] == readHistory().Hash() {
			s.once.Do(func() { close(s.began) })
			<-s.end
		}
		return next(ctx, c)
	}
}

// A proposal does not wait for the removal of old versions.
func TestProposalsDoNotWaitForAPrune(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t)
	own, publisher := openRecords(t, server.URL()), openRecords(t, server.URL())
	slow := &slowPrune{began: make(chan struct{}), end: make(chan struct{})}
	own.client.AddHook(slow)
	var expected atomic.Int64
	i := startInstance(t, own, func(o *MemberOptions) { o.Expect = func(context.Context, *rules.Set) { expected.Add(1) } })
	t.Cleanup(func() { close(slow.end) }) // before the instance ends
	livingInstances(t, publisher, 1)
	everywhere(t, publisher, mustPropose(t, publisher, 1), i)
	<-slow.began
	mustPropose(t, publisher, 2)
	eventually(t, "the second version is loaded", func() bool { return expected.Load() == 2 })
}
