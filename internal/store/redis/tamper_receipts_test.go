package redis_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// receiptRules are rules of all methods whose takes have receipts.
func receiptRules() []store.Rule {
	list := slices.DeleteFunc(rules(), func(r store.Rule) bool { return r.Method == store.Base })
	for i := range list {
		list[i].Settle = 600
	}
	outcome := store.Rule{Subject: []byte("u"), Return: 5, Method: store.Count, Weight: 1, Time: 60, Count: 5, Settle: 600, Outcome: true}
	held := store.Rule{Subject: []byte("u"), Return: 6, Method: store.Hold, Weight: 1, Time: 60, Count: 5}
	return append(list, outcome, held)
}

// TestTamperedReceiptsBreakNoLimit settles and renews receipts whose values were damaged:
// no counter admits more than its limit at one instant or refuses forever, the counters
// that the receipt does not name are right, and every key expires.
func TestTamperedReceiptsBreakNoLimit(t *testing.T) {
	rounds := 80
	if *long {
		rounds = 5000
	}
	server := storetest.StartServer(t)
	rigs := []*rig{openRig(t, server), openRig(t, server, readReceipts)}
	ctx := context.Background()
	witness := store.Rule{Subject: []byte("witness"), Return: 9, Method: store.Count, Weight: 1, Time: 3600, Count: 1_000_000}
	known := 0
	for round := range rounds {
		random := rand.New(rand.NewPCG(uint64(round), 7))
		s, at, failed := rigs[round%2], int64(now+round%7*100), t.Failed()
		s.do(store.Reset, at, receiptRules()...)
		receipt := takeReceipt(t, s, random, at)
		key := strings.Replace(s.key, "{u}", "{#r}"+receipt[1:], 1)
		good := s.client.Get(ctx, key).Val()
		if good == "" {
			t.Fatalf("the receipt %s has no key %s", receipt, key)
		}
		value := []byte(good)
		if value[random.IntN(len(value))] ^= 1 << random.IntN(8); random.IntN(3) == 0 {
			value = []byte(tampered(random, good))
		}
		if err := s.client.Set(ctx, key, value, time.Duration(random.IntN(2))*10*time.Minute).Err(); err != nil { // 0 is none
			t.Fatal(err)
		}
		for range 1 + random.IntN(4) {
			at += random.Int64N(2000)
			if useReceipt(t, s, random, receipt, at) {
				known++
			}
			s.do(store.Take, at, witness)
		}
		if s.client.Exists(ctx, key).Val() != 0 { // a value that is no receipt stays as it was
			s.client.Expire(ctx, key, time.Minute)
		}
		checkLimits(t, s, receiptRules(), at)
		server.CheckExpiries(t, s.Prefix())
		s.client.Del(ctx, key) // the next checks read all keys that are left
		if t.Failed() && !failed {
			t.Fatalf("round %d, after\n%x in place of\n%x", round, value, good)
		}
	}
	t.Logf("%d operations on %d tampered receipts were carried out", known, rounds)
	if known == 0 {
		t.Error("no tampered receipt was ever accepted: the test tests nothing")
	}
}

// readReceipts makes a store read each receipt before it settles it.
func readReceipts(o *redis.Options) { o.Receipts = -1 }

// takeReceipt returns the receipt of a take on some of the rules.
func takeReceipt(t *testing.T, s *rig, random *rand.Rand, at int64) string {
	t.Helper()
	list := receiptRules()
	list = list[random.IntN(len(list)-1):] // the last one is a hold
	for i := range list {
		list[i].Weight = 1 + random.Int64N(5)
	}
	var a store.Answers
	p := &store.Plan{Op: store.Take, Now: at, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: list}}}
	if err := s.Evaluate(context.Background(), p, &a); err != nil || a.Receipt == "" {
		t.Fatalf("no receipt: %+v, %v", a, err)
	}
	return a.Receipt
}

// useReceipt settles or renews a receipt, and reports whether it was known.
func useReceipt(t *testing.T, s *rig, random *rand.Rand, receipt string, at int64) bool {
	t.Helper()
	var done store.Settled
	var err error
	if random.IntN(3) == 0 {
		done, err = s.Renew(context.Background(), &store.Renewal{Receipt: receipt, Now: at})
	} else {
		j := &storetest.Judge{Use: store.Use{Concerns: true, Given: random.IntN(4) > 0, Hits: random.Int64N(9), Charge: true}}
		done, err = s.Settle(context.Background(), &store.Settlement{Receipt: receipt, Now: at, Zone: time.UTC, Judge: j})
	}
	if err != nil {
		t.Errorf("an operation failed: %v", err)
	}
	return done.Known
}

// checkLimits checks that no rule admits more than its limit at one instant or refuses
// forever.
func checkLimits(t *testing.T, s *rig, rules []store.Rule, at int64) {
	t.Helper()
	for _, r := range rules {
		r.Settle, r.Outcome = 0, false
		admitted := 0
		for range 8 {
			a := s.do(store.Take, at, r)
			checkBounds(t, a)
			if a.Decider < 0 {
				admitted++
			}
		}
		if limit := int(r.Count + max(r.Base-1, 0)); admitted > limit {
			t.Errorf("method %d admits %d at one instant; the limit is %d", r.Method, admitted, limit)
		}
		if a := s.do(store.Take, at+3*year, r); a.Decider >= 0 {
			t.Errorf("method %d refuses three years later: %+v", r.Method, a)
		}
	}
}

// TestDamagedReceiptIsUnknown settles and renews receipts whose keys have no value of a
// receipt. Both answer that the receipt is unknown, damage is reported, and the counter
// stays as it was.
func TestDamagedReceiptIsUnknown(t *testing.T) {
	server := storetest.StartServer(t)
	rule := store.Rule{Subject: []byte("u"), Return: 1, Method: store.Count, Weight: 3, Time: 60, Count: 5, Settle: 600}
	for name, c := range map[string]struct {
		damage  func(ctx context.Context, c *goredis.Client, key, good string)
		reports int
	}{
		"gone": {func(ctx context.Context, c *goredis.Client, key, _ string) { c.Del(ctx, key) }, 0},
		"of another type": {func(ctx context.Context, c *goredis.Client, key, _ string) {
			c.Del(ctx, key)
			c.RPush(ctx, key, "x")
			c.Expire(ctx, key, time.Minute)
		}, 0},
		"garbage": {func(ctx context.Context, c *goredis.Client, key, _ string) { c.Set(ctx, key, "garbage", time.Minute) }, 2},
		"cut": {func(ctx context.Context, c *goredis.Client, key, good string) {
			c.Set(ctx, key, good[:len(good)-1], time.Minute)
		}, 2},
		"of a later layout": {func(ctx context.Context, c *goredis.Client, key, good string) {
			c.Set(ctx, key, "\x02"+good[1:], time.Minute)
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var reported []string
			s := openRig(t, server, readReceipts, func(o *redis.Options) {
				o.OnDamage = func(key string) { reported = append(reported, key) }
			})
			ctx := context.Background()
			var a store.Answers
			p := &store.Plan{Op: store.Take, Now: now, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{rule}}}}
			if err := s.Evaluate(ctx, p, &a); err != nil {
				t.Fatal(err)
			}
			key := strings.Replace(s.key, "{u}", "{#r}"+a.Receipt[1:], 1)
			c.damage(ctx, s.client, key, s.client.Get(ctx, key).Val())
			settled, err := s.Settle(ctx, &store.Settlement{Receipt: a.Receipt, Now: now, Zone: time.UTC, Judge: &storetest.Judge{Use: store.Use{Concerns: true, Given: true}}})
			renewed, fault := s.Renew(ctx, &store.Renewal{Receipt: a.Receipt, Now: now})
			if settled.Known || renewed.Known || err != nil || fault != nil {
				t.Errorf("settled %+v, %v and renewed %+v, %v; want an unknown receipt", settled, err, renewed, fault)
			}
			if len(reported) != c.reports || c.reports > 0 && reported[0] != key {
				t.Errorf("reported %q; want %s %d times", reported, key, c.reports)
			}
			if got := s.do(store.Peek, now, rule); got.Hits != 3 {
				t.Errorf("%d hits are counted; want 3", got.Hits)
			}
		})
	}
}
