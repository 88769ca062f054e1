package cluster_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/cluster"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// settled waits after each call until everything is given back.
type settled struct{ *cluster.Store }

func (s settled) Evaluate(ctx context.Context, p *store.Plan, a *store.Answers) error {
	defer s.AwaitUndone()
	return s.Store.Evaluate(ctx, p, a)
}

func (s settled) Cancel(ctx context.Context, p *store.Plan, a *store.Answers) error {
	defer s.AwaitUndone()
	return s.Store.Cancel(ctx, p, a)
}

// TestBehavior runs the behavior table on a Cluster, with subjects in different
// slots and with all of them in one slot.
func TestBehavior(t *testing.T) {
	c := storetest.StartCluster(t, 3, false)
	opened := 0
	storetest.InWays(t, storetest.Ways(*long), func(t *testing.T, way storetest.Way) {
		for name, fixed := range map[string]bool{"one slot per subject": false, "one slot": true} {
			t.Run(name, func(t *testing.T) {
				storetest.Run(t, func(t *testing.T) store.Store {
					opened++
					return settled{c.Open(t, redis.Options{FixedTag: fixed, Prefix: fmt.Sprintf("t%d", opened)}, way)}
				})
				storetest.RunReceipts(t, func(t *testing.T) store.Store {
					opened++
					return settled{c.Open(t, redis.Options{FixedTag: fixed, Prefix: fmt.Sprintf("t%d", opened)}, way)}
				})
			})
		}
	})
	clocks, err := c.Open(t, redis.Options{}).Clocks(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	servers := map[string]bool{}
	for _, one := range clocks {
		servers[one.Server] = true
		if off := one.Shows.Sub(one.At); off < -time.Second || off > one.Within+time.Second {
			t.Errorf("the clock of %s is off by %v, although it is this machine's", one.Server, off)
		}
	}
	if len(clocks) != 3 || len(servers) != 3 {
		t.Errorf("the clocks of %v were read; want those of three nodes", servers)
	}
}
