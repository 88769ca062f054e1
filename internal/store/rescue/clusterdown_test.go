package rescue_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// TestRescueWhenTheClusterIsDown removes a slot under load from a Cluster that
// serves nothing without full coverage, the default of Redis. All calls are decided
// in process, the error has its remedy, and the counters are right when the slot is
// assigned again.
func TestRescueWhenTheClusterIsDown(t *testing.T) {
	t.Parallel()
	storetest.InWays(t, storetest.Ways(*long), rescueWhenTheClusterIsDown)
}

func rescueWhenTheClusterIsDown(t *testing.T, way storetest.Way) {
	c := storetest.StartCluster(t, 3, false, "--cluster-node-timeout", "1000") // so that the nodes notice sooner
	r := c.Open(t, redis.Options{Budget: 5 * envoyWaits}, way)
	x := &troubled{t: t, load: startLoad(t, r)}
	const slot = 100
	for _, s := range append(x.load.subjects, "free") {
		if c.SlotOf(s) == slot {
			t.Fatalf("%s has its counters in the removed slot; choose another slot", s)
		}
	}
	waitForState := func(state string) {
		t.Helper()
		storetest.Eventually(t, func() error {
			for _, n := range c.Nodes {
				if state != "ok" {
					_, _ = n.Do("CLUSTER", "DELSLOTS", slot) // it may have none, or have learned it again
				}
				if info := fmt.Sprint(n.MustDo("CLUSTER", "INFO")); !strings.Contains(info, "cluster_state:"+state) {
					return errors.New(info)
				}
			}
			return nil
		})
	}
	x.load.back(t) // all subjects have been refused
	waitForState("fail")
	x.waitUntilUnreachable("CLUSTER INFO")
	x.checkInProcess()
	storetest.Eventually(t, func() error { // after some checks, if the machine was slow at first
		if !x.load.reported("CLUSTER INFO") {
			return errors.New("no report that the Cluster is down")
		}
		return nil
	})
	c.Nodes[0].MustDo("CLUSTER", "ADDSLOTS", slot)
	waitForState("ok")
	t.Logf("back on Redis %v after the Cluster was", x.load.back(t).Round(time.Millisecond))
	x.load.judge(t)
	if replies := c.Errors(); replies["CLUSTERDOWN"] == 0 {
		t.Errorf("no node replied CLUSTERDOWN, but %v", replies)
	}
}
