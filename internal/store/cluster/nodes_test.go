package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/cluster"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/redisconn"
	"github.com/koalagate/koalagate/internal/store/rescue"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// partly makes a Cluster serve the slots that it has.
var partly = []string{"--cluster-require-full-coverage", "no"}

// TestHungNodeDoesNotDelayTheOthers checks a hanging node that is a seed and owns
// the first slots: it delays neither the start nor checks.
func TestHungNodeDoesNotDelayTheOthers(t *testing.T) {
	t.Parallel()
	c := storetest.StartCluster(t, 3, false, partly...)
	c.Nodes[0].Pause()
	defer c.Nodes[0].Resume()
	const budget = 5 * time.Second
	r, err := cluster.Open(redis.Options{URL: c.URL(), Budget: budget})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for i := range 3 {
		if err := r.Check(context.Background()); err != nil {
			t.Errorf("check %d: %v; two of three nodes can count", i, err)
		}
	}
	s := storetest.OpenRescue(t, redis.Options{URL: c.URL(), Budget: budget}, rescue.Options{})
	if state := s.State(); state.Degraded {
		t.Errorf("Redis is unreachable with %v; two of three nodes can count", state.Err)
	}
	for slot, hangs := range map[int]bool{100: true, 9000: false, 16000: false} {
		if _, degraded := takeBy(t, s, store.Rule{Subject: subjectIn(slot), Method: store.Count, Time: 60, Count: 9, Weight: 1}); degraded != hangs {
			t.Errorf("slot %d, whose node hangs: %v: answered in process: %v", slot, hangs, degraded)
		}
	}
}

// takeBy takes a hit of a rule and reports whether it is admitted, and whether in
// process.
func takeBy(t *testing.T, s store.Store, r store.Rule) (admitted, degraded bool) {
	t.Helper()
	var a store.Answers
	p := &store.Plan{Op: store.Take, Zone: storetest.Noon(), Sets: []store.Set{{Allows: true, Rules: []store.Rule{r}}}}
	if err := s.Evaluate(context.Background(), p, &a); err != nil {
		t.Error(err)
	}
	return a.Sets[0].Decider < 0, a.Degraded
}

// subjectIn returns a subject whose counter lies near the slot, in the same third of
// the slots.
func subjectIn(slot int) []byte {
	for i := 0; ; i++ {
		subject := "u" + strconv.Itoa(i)
		if off := cluster.SlotOf(cluster.Key(redis.DefaultPrefix, subject)) - slot; -100 <= off && off <= 100 {
			return []byte(subject)
		}
	}
}

// TestPlanIsUnsentOnlyAsAWhole makes calls over two slots while a node is down. They are
// reported as unsent, and may be charged again, exactly if no slot keeps what it counted.
func TestPlanIsUnsentOnlyAsAWhole(t *testing.T) {
	t.Parallel()
	c := storetest.StartCluster(t, 3, false, partly...)
	r := c.Open(t, redis.Options{})
	try := func(op store.Op, slots ...int) (store.Attempt, error) {
		p := &store.Plan{Op: op, Zone: time.UTC}
		for _, slot := range slots {
			p.Sets = append(p.Sets, allows(about(string(subjectIn(slot)), store.Rule{Method: store.Count, Time: 60, Count: 9})))
		}
		return r.Try(context.Background(), p, new(store.Answers))
	}
	c.Nodes[0].Kill()
	storetest.Eventually(t, func() error {
		if attempt, err := try(store.Update, 100); !attempt.Unsent {
			return fmt.Errorf("a call for the killed node is not unsent: %w", err)
		}
		return nil
	})
	for name, call := range map[string]struct {
		op     store.Op
		slots  []int
		unsent bool
	}{
		"an update, of the killed node and another": {store.Update, []int{100, 9000}, false},
		"in the other order":                        {store.Update, []int{9000, 100}, false},
		"an update of the killed node alone":        {store.Update, []int{100, 400}, true},
		"a take, which is given back":               {store.Take, []int{100, 9000}, true},
	} {
		if attempt, err := try(call.op, call.slots...); err == nil || attempt.Unsent != call.unsent {
			t.Errorf("%s: unsent: %v, %v; want %v with an error", name, attempt.Unsent, err, call.unsent)
		}
	}
}

// TestNodeWithoutSlotsIsNotTrusted checks that the store ignores the slot map of a
// node without slots, which was reset or never met the other nodes.
func TestNodeWithoutSlotsIsNotTrusted(t *testing.T) {
	t.Parallel()
	c := storetest.StartCluster(t, 3, false)
	reset := storetest.StartNode(t, goredis.Options{}, "--cluster-enabled", "yes")
	url := "redis-cluster://" + reset.Address
	for i := range 10 { // the order of the seeds is random
		openNodes(t, url+","+c.Nodes[i%3].Address)
	}
	alone, err := cluster.Open(redis.Options{URL: url, Budget: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer alone.Close()
	if err := alone.Check(context.Background()); !strings.Contains(redisconn.Remedy(err), "CLUSTER INFO") {
		t.Errorf("%v: the remedy is %q", err, redisconn.Remedy(err))
	}
}

// openNodes opens a store and checks that it can count.
func openNodes(t *testing.T, url string) *cluster.Store {
	t.Helper()
	r, err := cluster.Open(redis.Options{URL: url, Budget: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := r.Check(context.Background()); err != nil {
		t.Errorf("%s: %v", url, err)
	}
	return r
}

// TestNodesThatLeaveAreDropped checks that a node that left the Cluster is dropped
// with its connections: at once if it is down, after some time without being named
// if it still runs.
func TestNodesThatLeaveAreDropped(t *testing.T) {
	t.Parallel()
	c := storetest.StartCluster(t, 3, false, partly...)
	r := openNodes(t, c.URL())
	joined := c.Join()
	hit := func(subject []byte) error {
		return r.Evaluate(context.Background(), &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Rules: []store.Rule{
			{Subject: subject, Method: store.Count, Time: 60, Count: 1e6, Weight: 1},
		}}}}, new(store.Answers))
	}
	knows := func(n *storetest.Node, want bool) {
		t.Helper()
		storetest.Eventually(t, func() error {
			if err := r.Check(context.Background()); err != nil {
				return err
			}
			if got := slices.Contains(r.KnownNodes(), n.Address); got != want {
				return fmt.Errorf("the node is known: %v, want %v", got, want)
			}
			return nil
		})
	}
	subject := subjectIn(100)
	slot := cluster.SlotOf(cluster.Key(redis.DefaultPrefix, string(subject)))
	joined.MustDo("CLUSTER", "SETSLOT", slot, "IMPORTING", c.Nodes[0].ID())
	c.Nodes[0].MustDo("CLUSTER", "SETSLOT", slot, "MIGRATING", joined.ID())
	if err := hit(subject); err != nil {
		t.Error(err)
	}
	knows(joined, true) // it has no slot yet
	for _, n := range []*storetest.Node{joined, c.Nodes[0]} {
		n.MustDo("CLUSTER", "SETSLOT", slot, "STABLE")
	}
	r.ForgetNames()
	knows(joined, false)

	gone := c.Nodes[1] // not in the URL
	knows(gone, true)
	gone.Kill()
	if err := hit(subjectIn(9000)); err == nil {
		t.Fatal("a killed node answered")
	}
	knows(gone, true)
	remove := []any{"CLUSTER", "DELSLOTS"}
	for slot := 16384 / 3; slot < 16384*2/3; slot++ {
		remove = append(remove, slot)
	}
	for _, n := range []*storetest.Node{c.Nodes[0], c.Nodes[2], joined} {
		n.MustDo(remove...)
	}
	knows(gone, false)
	if err := hit(subject); err != nil {
		t.Error(err)
	}
}

// TestSlotWithoutOwnerIsDecidedInProcess checks that a slot without an owner is
// decided in process and affects no other slot, whether its former node reports it
// or the slot map.
func TestSlotWithoutOwnerIsDecidedInProcess(t *testing.T) {
	t.Parallel()
	c := storetest.StartCluster(t, 3, false, partly...)
	lost, other := subjectIn(100), subjectIn(200)
	before, faults := openPartly(t, c)
	slot := cluster.SlotOf(cluster.Key(redis.DefaultPrefix, string(lost)))
	storetest.Eventually(t, func() error {
		for _, n := range c.Nodes {
			_, _ = n.Do("CLUSTER", "DELSLOTS", slot) // it may have none
		}
		for _, n := range c.Nodes {
			if info := fmt.Sprint(n.MustDo("CLUSTER", "INFO")); !strings.Contains(info, "cluster_slots_assigned:16383") {
				return errors.New(info)
			}
		}
		return nil
	})
	after, more := openPartly(t, c)
	for name, s := range map[string]*rescue.Store{"its node reports it": before, "the slot map shows it": after} {
		begin, queries := time.Now(), slotQueries(c)
		const calls = 200
		for range calls {
			if _, degraded := takeBy(t, s, store.Rule{Subject: lost, Method: store.Count, Time: 60, Count: 9, Weight: 1}); !degraded {
				t.Fatalf("%s: a call counted in a slot without an owner", name)
			}
			if _, degraded := takeBy(t, s, store.Rule{Subject: other, Method: store.Count, Time: 60, Count: 1e6, Weight: 1}); degraded {
				t.Fatalf("%s: another slot of its node was answered in process", name)
			}
		}
		if state := s.State(); state.Degraded {
			t.Errorf("%s: Redis is unreachable with %v", name, state.Err)
		}
		queries = slotQueries(c) - queries
		// Every 50 ms a call and the background check may refresh the slot map, for
		// which a busy machine queries all nodes.
		took := time.Since(begin)
		if most := 2 * len(c.Nodes) * int(2+took/(50*time.Millisecond)); queries > most {
			t.Errorf("%s: %d calls queried the slots %d times in %v; want at most %d", name, calls, queries, took, most)
		}
	}
	for _, list := range []*faultList{faults, more} {
		if remedy := redisconn.Remedy(list.last()); !strings.Contains(remedy, "CLUSTER INFO") {
			t.Errorf("%v: the remedy is %q", list.last(), remedy)
		}
	}
}

// faultList collects the errors of calls.
type faultList struct {
	mu   sync.Mutex
	list []error
}

func (f *faultList) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, err)
}

func (f *faultList) last() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.list) == 0 {
		return nil
	}
	return f.list[len(f.list)-1]
}

// openPartly opens a rescue store, which must find the Cluster, and collects the
// errors of calls that are answered in process.
func openPartly(t *testing.T, c *storetest.Cluster) (*rescue.Store, *faultList) {
	t.Helper()
	faults := new(faultList)
	s := storetest.OpenRescue(t, redis.Options{URL: c.URL(), Budget: time.Minute}, rescue.Options{OnRescue: faults.add})
	if state := s.State(); state.Degraded {
		t.Fatalf("Redis is unreachable with %v", state.Err)
	}
	return s, faults
}

// openShort opens a rescue store whose calls do not wait long for a node that hangs, and
// waits until it has found the Cluster, which a busy machine may delay.
func openShort(t *testing.T, c *storetest.Cluster, budget time.Duration) *rescue.Store {
	t.Helper()
	s := storetest.OpenRescue(t, redis.Options{URL: c.URL(), Budget: budget}, rescue.Options{})
	storetest.Eventually(t, func() error {
		if s.State().Degraded {
			return s.State().Err
		}
		return nil
	})
	return s
}

// slotQueries returns how often the nodes were queried for the slots.
func slotQueries(c *storetest.Cluster) (n int) {
	for _, node := range c.Nodes {
		for line := range strings.Lines(fmt.Sprint(node.MustDo("INFO", "commandstats"))) {
			_, rest, is := strings.Cut(line, "cmdstat_cluster|slots:calls=")
			if !is {
				_, rest, _ = strings.Cut(line, "cmdstat_cluster:calls=") // Redis 6.2
			}
			count, _, _ := strings.Cut(rest, ",")
			calls, _ := strconv.Atoi(count)
			n += calls
		}
	}
	return n
}

// TestNodeIsFoundWhileItsSlotMoves checks that a node is found again although the
// slot of the key of its checks moves to another node.
func TestNodeIsFoundWhileItsSlotMoves(t *testing.T) {
	t.Parallel()
	c := storetest.StartCluster(t, 3, false, partly...)
	s := openShort(t, c, 2*time.Second)
	from, to := c.Nodes[0], c.Nodes[1]
	key, slot := firstProbe()
	to.MustDo("CLUSTER", "SETSLOT", slot, "IMPORTING", from.ID())
	from.MustDo("CLUSTER", "SETSLOT", slot, "MIGRATING", to.ID())
	// The key of a check may have expired already; then the node answers ASK.
	if _, err := from.Do("DEL", key); err != nil && !strings.HasPrefix(err.Error(), "ASK ") {
		t.Fatal(err)
	}
	rule := store.Rule{Subject: subjectIn(100), Method: store.Count, Time: 60, Count: 1e6, Weight: 1}
	degraded := func(want bool) {
		t.Helper()
		storetest.Eventually(t, func() error {
			if _, got := takeBy(t, s, rule); got != want {
				return fmt.Errorf("answered in process: %v, want %v", got, want)
			}
			return nil
		})
	}
	degraded(false)
	from.Pause()
	for range 5 { // more than it takes to open its breaker
		degraded(true)
	}
	from.Resume()
	degraded(false)
}

// firstProbe returns the key of the checks of the node that owns the first third of
// the slots.
func firstProbe() (key string, slot int) {
	for i := 0; ; i++ {
		key = cluster.Key(redis.DefaultPrefix, "\xf5check"+strconv.Itoa(i))
		if slot = cluster.SlotOf(key); slot < 5461 {
			return key, slot
		}
	}
}

// TestUnreachableNodeIsReportedWithItsCause checks that each call to an unreachable
// node fails with the cause, and that findings about the others are still returned.
func TestUnreachableNodeIsReportedWithItsCause(t *testing.T) {
	t.Parallel()
	c := storetest.StartCluster(t, 3, false, partly...)
	r := openNodes(t, c.URL())
	s, faults := openPartly(t, c)
	c.Nodes[1].Kill()
	cause := func() string {
		if _, degraded := takeBy(t, s, store.Rule{Subject: subjectIn(9000), Method: store.Count, Time: 60, Count: 9, Weight: 1}); !degraded {
			t.Fatal("a killed node answered")
		}
		err := faults.last()
		if !strings.Contains(err.Error(), c.Nodes[1].Address) {
			t.Errorf("the error of a call is %v; want one that names %s", err, c.Nodes[1].Address)
		}
		return redisconn.Remedy(err)
	}
	storetest.Eventually(t, func() error { // the connection is cut first; then a check is refused
		if remedy := cause(); !strings.Contains(remedy, "nothing listens there") {
			return fmt.Errorf("the remedy is %q", remedy)
		}
		return nil
	})
	for range 5 {
		cause()
	}
	findings, err := r.Inspect(context.Background())
	if err == nil || !strings.Contains(err.Error(), c.Nodes[1].Address) {
		t.Errorf("the error is %v; want one that names %s", err, c.Nodes[1].Address)
	}
	if len(findings) == 0 || !strings.Contains(findings[0].Text, "it keeps nothing on disk") {
		t.Errorf("the findings about the others are %+v", findings)
	}
}

// TestHurriedCallersOpenTheBreakerOfAHangingCluster checks that calls to a Cluster
// whose nodes all hang open the breaker, although none of them has the time to see
// a timeout of its own.
func TestHurriedCallersOpenTheBreakerOfAHangingCluster(t *testing.T) {
	t.Parallel()
	c := storetest.StartCluster(t, 1, false)
	s := openShort(t, c, 300*time.Millisecond)
	c.Nodes[0].Pause()
	defer c.Nodes[0].Resume()
	rule := store.Rule{Subject: subjectIn(100), Method: store.Count, Time: 60, Count: 1e6, Weight: 1}
	for range 3 {
		takeBy(t, s, rule)
	}
	plan := &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{rule}}}}
	storetest.Eventually(t, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 8*time.Millisecond)
		defer cancel()
		_ = s.Evaluate(ctx, plan, new(store.Answers)) // the call may expire on a busy machine
		if !s.State().Degraded {
			return errors.New("calls still go to the hanging Cluster")
		}
		return nil
	})
	if remedy := redisconn.Remedy(s.State().Err); !strings.Contains(remedy, "does not answer in time") {
		t.Errorf("%v: the remedy is %q", s.State().Err, remedy)
	}
}
