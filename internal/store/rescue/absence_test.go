package rescue_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/rescue"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

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

// TestRefusedIdentitiesStayRefusedWithoutRedis checks, for every method, that
// identities which Redis refused stay refused when it is unreachable. All others
// start from zero.
func TestRefusedIdentitiesStayRefusedWithoutRedis(t *testing.T) {
	storetest.InWaysAtOnce(t, storetest.Ways(*long), refusedIdentitiesStayRefused)
}

func refusedIdentitiesStayRefused(t *testing.T, way storetest.Way) {
	server := storetest.StartServer(t)
	r := openRescue(t, server.URL(), way, ample)
	methods := []store.Rule{
		{Return: 1, Method: store.Count, Time: 3600, Count: 3, Weight: 1},
		{Return: 2, Method: store.Count, Time: store.Day, Count: 3, Weight: 1},
		{Return: 3, Method: store.Base, Time: 3600, Base: 1, Count: 2, Weight: 1},
		{Return: 4, Method: store.Leak, Time: 3600, Count: 3, Weight: 1},
		{Return: 5, Method: store.Token, Time: 3600, Count: 1, Burst: 3, Weight: 1},
	}
	for _, rule := range methods {
		rule.Subject = []byte("greedy")
		admitted := true
		for range 10 {
			admitted, _ = takeBy(t, r, rule)
		}
		if admitted {
			t.Fatalf("ten hits fit into %+v", rule)
		}
	}
	server.Kill()
	for _, rule := range methods {
		rule.Subject = []byte("new") // finds Redis unreachable, unlike a remembered refusal
		if admitted, _ := takeBy(t, r, rule); !admitted {
			t.Errorf("%+v: an identity that Redis never refused is refused without it", rule)
		}
		rule.Subject = []byte("greedy")
		if admitted, degraded := takeBy(t, r, rule); admitted || !degraded {
			t.Errorf("%+v: refused by Redis, then without it: admitted %v, degraded %v", rule, admitted, degraded)
		}
	}
}

// TestInstancesWithoutRedisAdmitTheirShare checks that instances without Redis
// together admit at most their number times the share of each limit.
func TestInstancesWithoutRedisAdmitTheirShare(t *testing.T) {
	const instances, limit, callers, calls = 4, 100, 8, 100
	server := storetest.StartServer(t)
	server.Kill()
	for _, share := range []float64{1, 0.25, 0.1} {
		var group []store.Store
		for range instances {
			group = append(group, openShare(t, server.URL(), share))
		}
		for _, rule := range []store.Rule{
			{Return: 1, Method: store.Count, Time: 3600, Count: limit, Weight: 1},
			{Return: 2, Method: store.Base, Time: 3600, Base: limit / 2, Count: limit / 2, Weight: 1},
			{Return: 3, Method: store.Leak, Time: 3600, Count: limit, Weight: 1},
			{Return: 4, Method: store.Token, Time: 36_000, Count: 1, Burst: limit, Weight: 1},
		} {
			rule.Subject = []byte("u")
			var admitted atomic.Int64
			var wg sync.WaitGroup
			for _, s := range group {
				for range callers {
					wg.Go(func() {
						for range calls {
							if ok, _ := takeBy(t, s, rule); ok {
								admitted.Add(1)
							}
						}
					})
				}
			}
			wg.Wait()
			want := int64(instances * limit * share)
			// Shares are rounded down, and a base rule counts the last free hit in both
			// windows.
			if got := admitted.Load(); got > want || got < want*4/5 {
				t.Errorf("share %v, %+v: %d were admitted; want at most %d, and nearly as many", share, rule, got, want)
			}
		}
	}
}

func openShare(t *testing.T, url string, share float64) store.Store {
	t.Helper()
	return storetest.OpenRescue(t, redis.Options{URL: url, Prefix: fmt.Sprintf("share%v", share)}, rescue.Options{Share: share})
}
