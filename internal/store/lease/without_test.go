package lease_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/lease"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// plainRules are rules of each method, without leases.
var plainRules = []store.Rule{
	{Subject: []byte("a"), Return: 1, Method: store.Count, Time: 60, Count: 20},
	{Subject: []byte("a"), Return: 2, Method: store.Base, Time: 60, Count: 10, Base: 5},
	{Subject: []byte("b"), Return: 3, Method: store.Leak, Time: 60, Count: 20},
	{Subject: []byte("b"), Return: 4, Method: store.Token, Time: 60, Count: 30, Burst: 20},
	{Subject: []byte("c"), Return: 5, Method: store.Count, Unit: store.Month, Count: 30, Overdraft: true},
	{Subject: []byte("d"), Return: 6, Method: store.Count, Time: 10, Count: 8, Ban: 20},
}

// TestRulesWithoutLeasesLeaveTheSameKeys makes the same calls with the store of leases and
// without it: the answers, the keys in Redis and the number of calls are equal.
func TestRulesWithoutLeasesLeaveTheSameKeys(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t)
	open := func(prefix string) *redis.Store {
		// Two memories of refusals, which hash by random seeds, may differ in what they forget.
		return server.Open(t, func(o *redis.Options) { o.Prefix, o.Linger, o.Refusals = prefix, 1000*time.Hour, -1 })
	}
	direct, shared := open("direct"), open("leases")
	through := lease.New(shared, shared, lease.Options{})
	random := rand.New(rand.NewPCG(1, 2))
	ops := []store.Op{store.Take, store.Take, store.Take, store.Take, store.Browse, store.Update, store.Refund, store.Complete, store.CompleteTake}
	now := int64(1_780_000_000_000)
	for n := range 1000 {
		now += random.Int64N(500)
		p := &store.Plan{Op: ops[random.IntN(len(ops))], Now: now, Zone: time.UTC, Sets: []store.Set{{Allows: true}}}
		for _, r := range plainRules {
			if r.Weight = random.Int64N(4); random.IntN(3) == 0 {
				p.Sets[0].Rules = append(p.Sets[0].Rules, r)
			}
		}
		var want, got store.Answers
		for s, a := range map[store.Store]*store.Answers{direct: &want, through: &got} {
			if err := s.Evaluate(context.Background(), p, a); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(want.Sets, got.Sets); diff != "" {
			t.Fatalf("call %d (-without the store of leases +with it):\n%s", n, diff)
		}
	}
	through.Close()
	if diff := cmp.Diff(dumpOf(t, server, "direct"), dumpOf(t, server, "leases")); diff != "" {
		t.Errorf("keys in Redis (-without the store of leases +with it):\n%s", diff)
	}
	if a, b := direct.Calls().Plans, shared.Calls().Plans; a != b {
		t.Errorf("%d calls of Redis, and %d with the store of leases", a, b)
	}
}

// dumpOf returns the values of the keys with a prefix.
func dumpOf(t *testing.T, server *storetest.Server, prefix string) map[string]string {
	t.Helper()
	ctx, client := context.Background(), server.Client()
	values := map[string]string{}
	keys, err := client.Keys(ctx, prefix+"*").Result()
	if err != nil || len(keys) == 0 {
		t.Fatalf("%d keys with the prefix %s: %v", len(keys), prefix, err)
	}
	for _, key := range keys {
		value, err := client.Dump(ctx, key).Result()
		if err != nil {
			t.Fatal(err)
		}
		values[strings.TrimPrefix(key, prefix)] = value
	}
	return values
}

// BenchmarkTake compares a take that passes the store of leases on its way to another one
// with the other one alone, and with a take from a part.
func BenchmarkTake(b *testing.B) {
	next := memory.New(memory.Options{})
	defer next.Close()
	through := lease.New(next, lender(1<<40), lease.Options{})
	defer through.Close()
	rule := store.Rule{Subject: []byte("all"), Method: store.Count, Time: 3600, Count: store.MaxWeight, Weight: 1}
	var a store.Answers
	run := func(name string, s store.Store, p *store.Plan) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Evaluate(context.Background(), p, &a); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for _, n := range []int64{1, 4} {
		var rules []store.Rule
		for rule.Return = range n {
			rules = append(rules, rule)
		}
		run(fmt.Sprintf("without leases, %d rules/alone", n), next, take(rules...))
		run(fmt.Sprintf("without leases, %d rules/through", n), through, take(rules...))
	}
	rule.Return, rule.Lease = 100, 200
	run("from a part", through, take(rule))
}
