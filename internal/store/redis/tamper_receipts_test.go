package redis_test

import (
	"context"
	"encoding/binary"
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
		s.client.FlushDB(ctx) // the next round checks all keys that are left
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

// junk are values under the key of a receipt that are none, by what they are. reported is
// whether the value is reported as damaged: Redis returns none of another type.
var junk = map[string]struct {
	put      func(ctx context.Context, c goredis.Cmdable, key, good string)
	reported bool
}{
	"gone":   {func(context.Context, goredis.Cmdable, string, string) {}, false},
	"a list": {func(ctx context.Context, c goredis.Cmdable, key, _ string) { c.RPush(ctx, key, "x") }, false},
	"a hash": {func(ctx context.Context, c goredis.Cmdable, key, _ string) { c.HSet(ctx, key, "x", "y") }, false},
	"a set":  {func(ctx context.Context, c goredis.Cmdable, key, _ string) { c.SAdd(ctx, key, "x") }, false},
	"sorted": {func(ctx context.Context, c goredis.Cmdable, key, _ string) { c.ZAdd(ctx, key, goredis.Z{Member: "x"}) }, false},
	"a stream": {func(ctx context.Context, c goredis.Cmdable, key, _ string) {
		c.XAdd(ctx, &goredis.XAddArgs{Stream: key, Values: []string{"x", "y"}})
	}, false},
	"nothing":           {junkText(func(string) string { return "" }), false},
	"garbage":           {junkText(func(string) string { return "garbage" }), true},
	"a number":          {junkText(func(string) string { return "1" }), true},
	"cut":               {junkText(func(good string) string { return good[:len(good)/2] }), true},
	"the head alone":    {junkText(func(good string) string { return good[:15] }), true},
	"of a later layout": {junkText(func(good string) string { return "\x03" + good[1:] }), true},
	"with more parts than a plan has rules": {junkText(func(good string) string {
		const n = store.MaxRules + 1
		end := min(15+28, len(good))
		return good[:13] + string(binary.BigEndian.AppendUint16(nil, n)) + strings.Repeat(good[15:end], n) + good[end:]
	}), true},
	"with missing parts":   {junkText(func(good string) string { return good[:13] + "\xff\xff" + good[15:] }), true},
	"as long as a counter": {junkText(func(string) string { return "\x02" + strings.Repeat("\x00", 26) }), true},
	"too large":            {junkText(func(good string) string { return good + strings.Repeat("x", 4<<20) }), false},
}

// junkText returns a function that puts the text that change makes of a receipt.
func junkText(change func(good string) string) func(context.Context, goredis.Cmdable, string, string) {
	return func(ctx context.Context, c goredis.Cmdable, key, good string) { c.Set(ctx, key, change(good), 0) }
}

// TestJunkUnderAReceiptsKeyIsUnknown settles, renews and cancels takes whose receipts' keys
// have other values. Nothing fails: the receipt is unknown, damage is reported, and the counters and the
// values stay as they were.
func TestJunkUnderAReceiptsKeyIsUnknown(t *testing.T) {
	server := storetest.StartServer(t)
	rule := store.Rule{Subject: []byte("u"), Return: 1, Method: store.Count, Weight: 3, Time: 60, Count: 5, Settle: 600}
	held := store.Rule{Subject: []byte("u"), Return: 2, Method: store.Hold, Weight: 1, Time: 60, Count: 5}
	for way, change := range map[string]func(*redis.Options){"remembered": func(*redis.Options) {}, "read": readReceipts} {
		for name, c := range junk {
			for kind, rules := range map[string][]store.Rule{"count": {rule}, "hold": {rule, held}} {
				t.Run(way+"/"+kind+"/"+name, func(t *testing.T) {
					var reported []string
					s := openRig(t, server, change, func(o *redis.Options) {
						o.OnDamage = func(key string) { reported = append(reported, key) }
					})
					ctx := context.Background()
					var a store.Answers
					p := &store.Plan{Op: store.Take, Now: now, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: rules}}}
					if err := s.Evaluate(ctx, p, &a); err != nil {
						t.Fatal(err)
					}
					key := strings.Replace(s.key, "{u}", "{#r}"+a.Receipt[1:], 1)
					good := s.client.Get(ctx, key).Val()
					s.client.Del(ctx, key)
					c.put(ctx, s.client, key, good)
					s.client.Expire(ctx, key, time.Minute)
					before := s.client.Dump(ctx, key).Val()

					settled, err := s.Settle(ctx, &store.Settlement{Receipt: a.Receipt, Now: now, Zone: time.UTC, Judge: &storetest.Judge{Use: store.Use{Concerns: true, Given: true}}})
					renewed, fault := s.Renew(ctx, &store.Renewal{Receipt: a.Receipt, Now: now})
					if settled.Known || renewed.Known || err != nil || fault != nil {
						t.Errorf("settled %+v, %v and renewed %+v, %v; want an unknown receipt", settled, err, renewed, fault)
					}
					if want := map[bool]int{true: 2}[c.reported]; len(reported) != want || want > 0 && reported[0] != key {
						t.Errorf("reported %q; want %s %d times", reported, key, want)
					}
					if err := s.Cancel(ctx, p, &a); err != nil {
						t.Errorf("a cancellation failed: %v", err)
					}
					if s.client.Dump(ctx, key).Val() != before {
						t.Error("the value under the key is changed")
					}
					for _, r := range rules {
						if got := s.do(store.Peek, now, r); got.Hits != r.Weight {
							t.Errorf("%d hits of rule %d are counted; want %d", got.Hits, r.Return, r.Weight)
						}
					}
				})
			}
		}
	}
}
