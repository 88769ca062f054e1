package redis_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// year is the longest time of a rule, in ms: no time in an answer exceeds twice
// that.
const year = 366 * store.Day * 1000

// TestTamperedValuesBreakNoLimit writes damaged values and carries out plans on
// them: every answer is within its bounds, no counter admits more than its limit at
// one instant or refuses forever, the other counters of the call are right, and
// every key expires.
func TestTamperedValuesBreakNoLimit(t *testing.T) {
	rounds := 200
	if *long {
		rounds = 20_000
	}
	server := storetest.StartServer(t)
	s := openRig(t, server)
	ctx := context.Background()
	s.do(store.Take, now, rules()...)
	fill(s, now, rules()[2])
	log := s.key + ":27"
	all, log27 := s.value(), s.client.Get(ctx, log).Val()
	s.do(store.Reset, now, rules()...)
	s.do(store.Take, now, rules()[0])
	counts := s.value() // one window, as most values
	witness := store.Rule{Subject: []byte("witness"), Return: 9, Method: store.Count, Weight: 1, Time: 3600, Count: 1_000_000}
	seen := int64(0)
	for round := range rounds {
		random := rand.New(rand.NewPCG(uint64(round), 5))
		var put []string
		good, involved := map[string]string{s.key: all, log: log27}, rules()
		if random.IntN(3) == 0 {
			good, involved = map[string]string{s.key: counts}, rules()[:1]
		}
		for _, key := range slices.Sorted(maps.Keys(good)) { // in the same order in every run
			value := good[key]
			if key != s.key && random.IntN(3) > 0 || key == s.key && random.IntN(4) > 0 {
				value = tampered(random, value)
			}
			put = append(put, fmt.Sprintf("%x", value))
			expiry := 10 * time.Minute
			if key == s.key {
				expiry *= time.Duration(random.IntN(2)) // 0 is none
			}
			if err := s.client.Set(ctx, key, value, expiry).Err(); err != nil {
				t.Fatal(err)
			}
		}
		at, failed := int64(now+300), t.Failed()
		for range 1 + random.IntN(4) {
			at += random.Int64N(2000)
			list := append(some(random, involved), witness)
			op := []store.Op{store.Take, store.Browse, store.Update, store.Refund, store.Peek, store.Complete, store.Reset}[random.IntN(7)]
			for _, r := range list[:len(list)-1] {
				checkBounds(t, s.do(op, at, r))
			}
			if a := s.do(store.Take, at, list...); a.Decider < 0 {
				seen++
			}
		}
		for _, r := range involved {
			admitted := 0
			for range 8 {
				if s.do(store.Take, at, r).Decider < 0 {
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
		if a := s.do(store.Peek, at, witness); a.Hits != seen {
			t.Fatalf("the undamaged counter has %d hits, want %d", a.Hits, seen)
		}
		server.CheckExpiries(t, s.Prefix())
		if t.Failed() && !failed {
			t.Fatalf("round %d, after %.2000s", round, strings.Join(put, " and "))
		}
	}
}

// some returns one or more of the rules, each once, with random weights.
func some(random *rand.Rand, rules []store.Rule) []store.Rule {
	var list []store.Rule
	for _, i := range random.Perm(len(rules))[:1+random.IntN(len(rules))] {
		r := rules[i]
		r.Weight = []int64{0, 1, 1, 2, 7, store.MaxWeight}[random.IntN(6)]
		list = append(list, r)
	}
	return list
}

// tampered returns the value with random changes.
func tampered(random *rand.Rand, value string) string {
	b := []byte(value)
	for range 1 + random.IntN(3) {
		if len(b) == 0 {
			break
		}
		at := random.IntN(len(b))
		end := min(len(b), at+1+random.IntN(16))
		switch random.IntN(8) {
		case 0:
			b = b[:at]
		case 1:
			b = append(b, b[at:end]...)
		case 2:
			b = append(b[:at:at], b[end:]...)
		case 3:
			b[at] ^= 1 << random.IntN(8)
		case 4:
			b = append(append(b[:at:at], b[at:end]...), b[at:]...)
		default:
			fill := []byte{0, 0xff, 0x7f, byte(random.Uint32())}[random.IntN(4)]
			for i := at; i < end; i++ {
				b[i] = fill
			}
		}
	}
	return string(b)
}

// checkBounds checks the bounds that every answer is within.
func checkBounds(t *testing.T, a store.Answer) {
	t.Helper()
	if a.Remaining < 0 || a.Remaining > a.Limit || a.Reset < 0 || a.Reset > 3*year || a.Retry < -1 || a.Retry > 3*year || a.Hits < 0 {
		t.Errorf("answer out of bounds: %+v", a)
	}
}

// TestDamageStaysInItsKey makes many calls at once, so that they go to Redis
// together. Half of them meet a full counter and are refused; the others meet a
// damaged one and start from zero.
func TestDamageStaysInItsKey(t *testing.T) {
	s := openRig(t, storetest.StartServer(t))
	ctx := context.Background()
	const callers = 200
	subject := func(i int) string { return fmt.Sprintf("s%d", i) }
	take := func(i int) (store.Answer, error) {
		sets := []store.Set{{Allows: true, Rules: rules()}}
		for j := range sets[0].Rules {
			sets[0].Rules[j].Subject = []byte(subject(i))
			sets[0].Rules[j].Weight = sets[0].Rules[j].Count
		}
		var a store.Answers
		err := s.Evaluate(ctx, &store.Plan{Op: store.Take, Now: now, Zone: time.UTC, Sets: sets}, &a)
		return a.Sets[0], err
	}
	for i := range callers {
		if a, err := take(i); err != nil || a.Decider >= 0 {
			t.Fatalf("caller %d: %+v, %v", i, a, err)
		}
	}
	for i := 1; i < callers; i += 2 {
		key := redis.Key(s.Prefix(), subject(i))
		switch i % 6 {
		case 1: // garbage
			s.client.Set(ctx, key, "garbage", time.Minute)
		case 3: // another type
			s.client.Del(ctx, key)
			s.client.HSet(ctx, key, "a", "b")
			s.client.Expire(ctx, key, time.Minute)
		case 5: // truncated
			value := s.client.Get(ctx, key).Val()
			s.client.Set(ctx, key, value[:len(value)-9], time.Minute)
		}
	}
	var running sync.WaitGroup
	for i := range callers {
		running.Go(func() {
			a, err := take(i)
			if err != nil || (a.Decider < 0) != (i%2 == 1) {
				t.Errorf("caller %d of a damaged counter (%v): %+v, %v", i, i%2 == 1, a, err)
			}
		})
	}
	running.Wait()
}
