package cluster_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/cluster"
	"github.com/koalagate/koalagate/internal/store/lease"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// tenants is the number of busy counters, in several slots.
const tenants = 6

// tenantLimit is the limit of each of them.
const tenantLimit = 1000

func tenantRule(i int) store.Rule {
	return store.Rule{Subject: fmt.Appendf(nil, "tenant%d", i), Return: 1, Method: store.Count, Time: 3600, Count: tenantLimit, Lease: 200, Weight: 1}
}

func takeOf(list ...store.Rule) *store.Plan {
	return &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: list}}}
}

// TestLeasesOverSlots has three instances use up busy counters of a Cluster, with takes of
// one and of two slots, while the slots move. When the instances have closed, what is left
// can be taken: no hit was admitted too many, and each is accounted for.
func TestLeasesOverSlots(t *testing.T) {
	t.Parallel()
	c := storetest.StartCluster(t, 3, false)
	shared := make([]*cluster.Store, 3)
	instances := make([]*lease.Store, 3)
	for i := range instances {
		shared[i] = c.Open(t, redis.Options{Prefix: "tenants", Refusals: -1})
		instances[i] = lease.New(shared[i], shared[i], lease.Options{})
	}
	var admitted [tenants]atomic.Int64
	take := func(s store.Store, a *store.Answers, list ...int) bool {
		rules := make([]store.Rule, len(list))
		for n, i := range list {
			rules[n] = tenantRule(i)
		}
		if err := s.Evaluate(context.Background(), takeOf(rules...), a); err != nil {
			t.Error(err)
			return false
		}
		if a.Sets[0].Decider >= 0 {
			return false
		}
		for _, i := range list {
			admitted[i].Add(1)
		}
		return true
	}
	var callers sync.WaitGroup
	for n := range 6 {
		s := instances[n%3]
		callers.Go(func() {
			var a store.Answers
			for i := range 1500 {
				if i%4 == 0 {
					take(s, &a, i%tenants, (i+1)%tenants)
				} else {
					take(s, &a, i%tenants)
				}
			}
		})
	}
	for round := range 2 {
		for i := range tenants {
			c.Move(cluster.SlotOf(cluster.Key("tenants", fmt.Sprintf("tenant%d", i))), c.Nodes[(round+i)%3], nil)
		}
	}
	callers.Wait()
	var spent, lost int64
	for i, s := range instances {
		s.Close()
		shared[i].AwaitUndone()
		stats := s.Stats()
		spent, lost = spent+stats.Spent, lost+stats.Lost
	}
	if spent == 0 {
		t.Error("no hit was spent from a part")
	}
	total := int64(0)
	for i := range tenants {
		var a store.Answers
		for take(shared[0], &a, i) {
		}
		got := admitted[i].Load()
		if total += got; got > tenantLimit {
			t.Errorf("%d hits of tenant %d were admitted, want %d", got, i, tenantLimit)
		}
	}
	if total+lost != tenants*tenantLimit {
		t.Errorf("%d hits were admitted and %d lost, want %d together", total, lost, tenants*tenantLimit)
	}
	t.Logf("%d hits spent from parts, %d lost", spent, lost)
}
