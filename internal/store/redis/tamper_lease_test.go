package redis_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// Damaged or forged records of what instances hold break no limit: no grant exceeds what the
// rule lets instances hold, no counter admits more than its limit at one instant, and none
// refuses forever.
func TestTamperedLeasesBreakNoLimit(t *testing.T) {
	rounds := 60
	if *long {
		rounds = 20_000
	}
	s := openRig(t, storetest.StartServer(t))
	ctx := context.Background()
	leased := []store.Rule{
		{Subject: rules()[0].Subject, Return: 1, Method: store.Count, Time: 3600, Count: 1000, Lease: 200, Weight: 1},
		{Subject: rules()[0].Subject, Return: 2, Method: store.Token, Time: 60, Count: 100, Burst: 1000, Lease: 200, Weight: 1},
	}
	grant := func(r store.Rule, at int64, l store.Lease) store.Grant {
		t.Helper()
		l.Now, l.Rule = at, r
		g, err := s.Lease(ctx, &l)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	var first [2]store.Grant
	for i, r := range leased {
		s.do(store.Take, now, r)
		first[i] = grant(r, now, store.Lease{Ask: 50, Lasts: 2000})
	}
	good := s.value()
	for round := range rounds {
		random := rand.New(rand.NewPCG(uint64(round), 9))
		value := good
		if round > 0 {
			value = tampered(random, good)
		}
		if err := s.client.Set(ctx, s.key, value, 10*time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		i := random.IntN(2)
		r, at := leased[i], int64(now+random.IntN(3000))
		limit := []int64{1000, 1000}[i]
		most := []int64{200, 100}[i]
		huge := []int64{0, 1, 50, 1 << 40, 1<<48 - 1}
		hostile := func() int64 { return huge[random.IntN(len(huge))] }
		for range 4 {
			g := grant(r, at, store.Lease{Era: first[i].Era, Ends: first[i].Ends, Drop: hostile(), Keep: hostile(), Back: hostile(), Ask: 1 << 40, Lasts: 2000})
			if g.Granted < 0 || g.Granted > most || g.Remaining < 0 || g.Remaining > limit || g.Held < 0 || g.Reset < 0 {
				t.Errorf("a grant of %+v", g)
			}
		}
		if admitted := admits(s, at, r, limit); admitted > limit {
			t.Errorf("%d hits were admitted of %d", admitted, limit)
		}
		if a := s.do(store.Take, at+3*year, r); a.Decider >= 0 {
			t.Errorf("it refuses three years later: %+v", a)
		}
		if t.Failed() {
			t.Fatalf("round %d, method %d, after %x", round, r.Method, value)
		}
	}
}

// admits returns how many hits a rule still admits at one instant, or more than limit if it admits
// more. The first calls are heavy ones, so that few calls suffice.
func admits(s *rig, at int64, r store.Rule, limit int64) (hits int64) {
	for _, weight := range []int64{100, 10, 1} {
		r.Weight = weight
		for hits <= limit && s.do(store.Take, at, r).Decider < 0 {
			hits += weight
		}
	}
	return hits
}
