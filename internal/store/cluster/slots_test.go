package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// TestAddressesReportedByNodesAreResolved checks the forms in which nodes report
// addresses: IPv6 without brackets, and without a host if it is their own.
func TestAddressesReportedByNodesAreResolved(t *testing.T) {
	for _, c := range []struct{ by, reported, want string }{
		{"10.0.0.1:7000", "10.0.0.2:7001", "10.0.0.2:7001"},
		{"10.0.0.1:7000", ":7001", "10.0.0.1:7001"},
		{"10.0.0.1:7000", "?:7001", "10.0.0.1:7001"},
		{"n1:7000", "n2.redis.internal:7001", "n2.redis.internal:7001"},
		{"[::1]:7000", "::1:7001", "[::1]:7001"},
		{"[::1]:7000", "[::1]:7001", "[::1]:7001"},
		{"[::1]:7000", ":7001", "[::1]:7001"},
		{"[::1]:7000", "?:7001", "[::1]:7001"},
		{"[fd00::1]:7000", "fd00::aa:2:7001", "[fd00::aa:2]:7001"},
		{"n1:7000", "nonsense", "nonsense"},
	} {
		k := &nodes{known: map[string]*node{}, connect: func(addr string) *goredis.Client {
			return goredis.NewClient(&goredis.Options{Addr: addr})
		}, wake: make(chan struct{}, 1), evaluator: evaluator(t)}
		by := k.at(c.by)
		if got := by.resolve(c.reported); got != c.want {
			t.Errorf("%s reports %s: resolved to %s, want %s", c.by, c.reported, got, c.want)
		}
		for _, word := range []string{"MOVED", "ASK"} {
			if n := k.redirect(by, new(redis.Call), redisconn.Reply(word+" 1 "+c.reported)); n == nil || n.addr != c.want {
				t.Errorf("%s replies %s 1 %s: the call goes to %+v, want %s", c.by, word, c.reported, n, c.want)
			}
		}
		for _, n := range k.all() {
			if err := n.close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// closing is a client hook that answers CLUSTER SLOTS and marks its nodes as
// closed.
type closing struct{ of *nodes }

func (c closing) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (c closing) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

func (c closing) ProcessHook(goredis.ProcessHook) goredis.ProcessHook {
	return func(_ context.Context, cmd goredis.Cmder) error {
		cmd.(*goredis.ClusterSlotsCmd).SetVal([]goredis.ClusterSlot{{Start: 0, End: slots - 1, Nodes: []goredis.ClusterNode{{Addr: "127.0.0.1:2"}}}})
		c.of.mu.Lock()
		defer c.of.mu.Unlock()
		c.of.closed = true
		return nil
	}
}

// TestCloseDuringTheFirstRefresh closes the nodes during the first refresh of the
// slot map.
func TestCloseDuringTheFirstRefresh(t *testing.T) {
	k := &nodes{seeds: []string{"127.0.0.1:1"}, evaluator: evaluator(t), known: make(map[string]*node), ctx: t.Context(), cancel: func() {}}
	k.connect = func(addr string) *goredis.Client {
		client := goredis.NewClient(&goredis.Options{Addr: addr})
		client.AddHook(closing{k})
		return client
	}
	if err := k.refresh(t.Context()); !errors.Is(err, goredis.ErrClosed) {
		t.Errorf("the refresh ends with %v; want that the nodes are closed", err)
	}
	if err := k.close(); err != nil {
		t.Error(err)
	}
}

func evaluator(t *testing.T) *redis.Evaluator {
	t.Helper()
	e, err := redis.NewEvaluator(&redis.Options{Budget: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return e
}
