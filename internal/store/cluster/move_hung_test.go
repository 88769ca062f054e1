package cluster_test

import (
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/breaker"
	"github.com/koalagate/koalagate/internal/store/cluster"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// TestHungTargetOfAMoveLeavesTheSource moves a slot to a node that hangs: the calls
// that follow ASK there fail, and the source's other slots still count.
func TestHungTargetOfAMoveLeavesTheSource(t *testing.T) {
	t.Parallel()
	c := storetest.StartCluster(t, 3, false, partly...)
	s := openShort(t, c, 2*time.Second)
	count := func(slot int) store.Rule {
		return store.Rule{Subject: subjectIn(slot), Method: store.Count, Time: 60, Count: 1e6, Weight: 1}
	}
	moving, other := count(100), count(3000)
	source, target := c.Nodes[0], c.Nodes[1]
	slot := cluster.SlotOf(cluster.Key(redis.DefaultPrefix, string(moving.Subject)))
	target.MustDo("CLUSTER", "SETSLOT", slot, "IMPORTING", source.ID())
	source.MustDo("CLUSTER", "SETSLOT", slot, "MIGRATING", target.ID())
	target.Pause()
	defer target.Resume()
	for i := range breaker.MaxFailures {
		if _, degraded := takeBy(t, s, moving); !degraded {
			t.Fatalf("call %d: a hanging node answered", i)
		}
	}
	if _, degraded := takeBy(t, s, other); degraded {
		t.Error("another slot of the source was decided in process")
	}
}
