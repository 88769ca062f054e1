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

// A Cluster that serves nothing while it lacks a slot, which is how Redis comes,
// loses one under load: all is decided in process, the log can say what is to be
// done, and the counters are right when the slot is found.
func TestClusterThatIsDown(t *testing.T) {
	t.Parallel()
	storetest.InWays(t, storetest.Ways(*long), clusterIsDown)
}

func clusterIsDown(t *testing.T, way storetest.Way) {
	c := storetest.StartCluster(t, 3, false, "--cluster-node-timeout", "1000") // the nodes tell each other sooner
	r := c.Open(t, redis.Options{Budget: 5 * envoyWaits}, way)
	x := &troubled{t: t, load: startLoad(t, r)}
	const slot = 100
	for _, s := range append(x.load.subjects, "free") {
		if c.SlotOf(s) == slot {
			t.Fatalf("%s has its counters in the slot that is lost; take another one", s)
		}
	}
	everyNodeSays := func(state string) {
		t.Helper()
		storetest.Eventually(t, func() error {
			for _, n := range c.Nodes {
				if state != "ok" {
					_, _ = n.Do("CLUSTER", "DELSLOTS", slot) // it may have none, or have heard of it anew
				}
				if info := fmt.Sprint(n.MustDo("CLUSTER", "INFO")); !strings.Contains(info, "cluster_state:"+state) {
					return errors.New(info)
				}
			}
			return nil
		})
	}
	x.load.back(t) // all have been refused
	everyNodeSays("fail")
	x.isAwayWith("CLUSTER INFO")
	x.standsIn()
	if !x.load.wasToldOf("CLUSTER INFO") {
		t.Error("nobody was told that the Cluster is down")
	}
	c.Nodes[0].MustDo("CLUSTER", "ADDSLOTS", slot)
	everyNodeSays("ok")
	t.Logf("back on Redis %v after the Cluster was", x.load.back(t).Round(time.Millisecond))
	x.load.judge(t)
	if told := c.Errors(); told["CLUSTERDOWN"] == 0 {
		t.Errorf("no node ever said CLUSTERDOWN, but %v", told)
	}
}
