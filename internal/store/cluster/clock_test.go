package cluster_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/redisconn"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// TestClocksOmitNodesThatHang checks that the error names the hanging node, and that
// the clocks of the others are returned.
func TestClocksOmitNodesThatHang(t *testing.T) {
	t.Parallel()
	c := storetest.StartCluster(t, 3, false, partly...)
	r := c.Open(t, redis.Options{Budget: 5 * time.Second})
	c.Nodes[1].Pause()
	defer c.Nodes[1].Resume()
	clocks, err := r.Clocks(context.Background())
	if err == nil || !strings.Contains(err.Error(), c.Nodes[1].Address) || strings.Contains(err.Error(), c.Nodes[0].Address) {
		t.Errorf("the error is %v; want one that names %s alone", err, c.Nodes[1].Address)
	}
	for _, n := range []*storetest.Node{c.Nodes[0], c.Nodes[2]} {
		if !slices.ContainsFunc(clocks, func(one redisconn.Clock) bool { return one.Server == n.Address }) {
			t.Errorf("the clocks %+v have none of %s", clocks, n.Address)
		}
	}
}
