package storetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store/cluster"
	"github.com/koalagate/koalagate/internal/store/redis"
)

// slots is the number of slots of a Cluster.
const slots = 16384

// Cluster is a Redis Cluster for one test.
type Cluster struct {
	Nodes       []*Node // masters first
	t           testing.TB
	nodeTimeout string // cluster-node-timeout, in ms
}

// StartCluster starts a Cluster of masters, with one replica each if replicated, and
// waits until all nodes know all others.
func StartCluster(t testing.TB, masters int, replicated bool, args ...string) *Cluster {
	t.Helper()
	// Without replicas there is no failover, and without one node the others serve
	// nothing: the long timeout tolerates a node that stalls on a busy machine.
	c := &Cluster{t: t, nodeTimeout: "5000"}
	size := masters
	if replicated {
		size *= 2
		c.nodeTimeout = "1000"
	}
	for range size {
		c.Nodes = append(c.Nodes, c.start(args...))
	}
	for i, n := range c.Nodes[:masters] {
		own := []any{"CLUSTER", "ADDSLOTS"} // Redis 6.2 has no ADDSLOTSRANGE
		for slot := slots * i / masters; slot < slots*(i+1)/masters; slot++ {
			own = append(own, slot)
		}
		n.MustDo(own...)
		n.MustDo("CLUSTER", "SET-CONFIG-EPOCH", i+1)
	}
	for _, n := range c.Nodes[1:] {
		n.MustDo("CLUSTER", "MEET", "127.0.0.1", c.Nodes[0].Port())
	}
	c.wait(size)
	for i, n := range c.Nodes[masters:] {
		id := c.Nodes[i].ID()
		Eventually(t, func() error {
			_, err := n.Do("CLUSTER", "REPLICATE", id)
			return err
		})
	}
	for i := range c.Nodes[masters:] {
		Eventually(t, func() error {
			if state := fmt.Sprint(c.Nodes[i].MustDo("INFO", "replication")); !strings.Contains(state, "state=online") {
				return errors.New("a replica is not online: " + state)
			}
			return nil
		})
	}
	c.wait(size)
	return c
}

func (c *Cluster) start(args ...string) *Node {
	return StartNode(c.t, goredis.Options{}, append([]string{
		"--cluster-enabled", "yes", "--cluster-node-timeout", c.nodeTimeout, "--repl-diskless-sync-delay", "0",
	}, args...)...)
}

// Join starts one more node, without slots.
func (c *Cluster) Join() *Node {
	c.t.Helper()
	n := c.start()
	n.MustDo("CLUSTER", "MEET", "127.0.0.1", c.Nodes[0].Port())
	c.Nodes = append(c.Nodes, n)
	c.wait(len(c.Nodes))
	return n
}

// wait waits until every node knows size nodes and the owner of each slot. The state
// alone is not enough: a Cluster without full coverage reports ok sooner.
func (c *Cluster) wait(size int) {
	c.t.Helper()
	for _, n := range c.Nodes {
		Eventually(c.t, func() error {
			info := fmt.Sprint(n.MustDo("CLUSTER", "INFO"))
			for _, line := range []string{"cluster_state:ok", "cluster_slots_ok:" + strconv.Itoa(slots), "cluster_known_nodes:" + strconv.Itoa(size)} {
				if !strings.Contains(info, line+"\r") {
					return fmt.Errorf("%s has no line %s: %s", n.Address, line, info)
				}
			}
			return nil
		})
	}
}

// URL returns a URL with two of the nodes.
func (c *Cluster) URL() string {
	return "redis-cluster://" + c.Nodes[0].Address + "," + c.Nodes[len(c.Nodes)-1].Address
}

// ID returns the identifier of the node in its Cluster.
func (n *Node) ID() string {
	n.t.Helper()
	return fmt.Sprint(n.MustDo("CLUSTER", "MYID"))
}

// Owner returns the owner of a slot, as reported by the first node that answers.
func (c *Cluster) Owner(slot int) *Node {
	c.t.Helper()
	for _, n := range c.Nodes {
		client := n.Client()
		ranges, err := client.ClusterSlots(context.Background()).Result() //nolint:staticcheck // Redis 6.2 has no CLUSTER SHARDS
		client.Close()
		if err != nil {
			continue
		}
		for _, r := range ranges {
			for _, owner := range c.Nodes {
				if r.Start <= slot && slot <= r.End && owner.Address == r.Nodes[0].Addr {
					return owner
				}
			}
		}
	}
	c.t.Fatalf("no node owns slot %d", slot)
	return nil
}

// TakeOver makes a replica take over from its master, the owner of slot. The master
// waits until the replica has all writes, and gives up after some seconds; then
// TakeOver repeats the command. A former master must first be a synchronized
// replica, or the command fails.
func (c *Cluster) TakeOver(replica *Node, slot int) {
	c.t.Helper()
	var sent time.Time
	Eventually(c.t, func() error {
		if c.Owner(slot) == replica {
			return nil
		}
		if state := fmt.Sprint(replica.MustDo("INFO", "replication")); !strings.Contains(state, "master_link_status:up") {
			return errors.New("the replica has lost its master: " + state)
		}
		if time.Since(sent) > takeOverTime {
			sent = time.Now()
			if _, err := replica.Do("CLUSTER", "FAILOVER"); err != nil {
				return err
			}
		}
		return errors.New("the replica has not taken over\n" + replica.Log())
	})
}

// takeOverTime is the time after which a replica gives up a takeover, and a little
// more.
const takeOverTime = 6 * time.Second

// Move moves a slot with its keys to another node, as redis-cli does. It calls
// during before the first key has moved and after each.
func (c *Cluster) Move(slot int, to *Node, during func()) {
	c.t.Helper()
	from := c.Owner(slot)
	if from == to {
		return
	}
	to.MustDo("CLUSTER", "SETSLOT", slot, "IMPORTING", from.ID())
	from.MustDo("CLUSTER", "SETSLOT", slot, "MIGRATING", to.ID())
	if during != nil {
		during()
	}
	for {
		keys, ok := from.MustDo("CLUSTER", "GETKEYSINSLOT", slot, 1).([]any)
		if !ok || len(keys) == 0 {
			break
		}
		from.MustDo(append([]any{"MIGRATE", "127.0.0.1", to.Port(), "", 0, 5000, "KEYS"}, keys...)...)
		if during != nil {
			during()
		}
	}
	for _, n := range []*Node{to, from} {
		n.MustDo("CLUSTER", "SETSLOT", slot, "NODE", to.ID())
	}
	for _, n := range c.Nodes {
		// Replicas refuse it; the other masters would learn it by themselves.
		_, _ = n.Do("CLUSTER", "SETSLOT", slot, "NODE", to.ID())
	}
}

// Errors returns how often the nodes replied with each kind of error.
func (c *Cluster) Errors() map[string]int {
	c.t.Helper()
	replies := make(map[string]int)
	for _, n := range c.Nodes {
		for line := range strings.Lines(fmt.Sprint(n.MustDo("INFO", "errorstats"))) {
			name, count, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "errorstat_"), ":count=")
			if number, err := strconv.Atoi(count); err == nil {
				replies[name] += number
			}
		}
	}
	return replies
}

// Open returns a store in the Cluster, after checking that it can count.
func (c *Cluster) Open(t testing.TB, o redis.Options, ways ...Way) *cluster.Store {
	t.Helper()
	o.URL, o.Linger = c.URL(), time.Hour // so that a slow machine does not expire counters of plans with their own clock
	for _, way := range ways {
		way.Set(&o)
	}
	if o.Budget == 0 {
		o.Budget = time.Minute
	}
	r, err := cluster.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	// A busy machine may take longer than a budget.
	Eventually(t, func() error { return r.Check(context.Background()) })
	return r
}

// SlotOf returns the slot of the counters of a subject under the default prefix.
// The subject must consist of letters and digits.
func (c *Cluster) SlotOf(subject string) int {
	c.t.Helper()
	slot, ok := c.Nodes[0].MustDo("CLUSTER", "KEYSLOT", redis.DefaultPrefix+":2:{"+subject+"}").(int64)
	if !ok {
		c.t.Fatal("CLUSTER KEYSLOT returned no number")
	}
	return int(slot)
}
