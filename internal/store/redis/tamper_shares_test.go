package redis_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// Damaged or forged records of shares break no limit: no assignment is above what the rule can
// give, no counter admits more than its limit at one instant, and none refuses forever.
func TestTamperedSharesBreakNoLimit(t *testing.T) {
	rounds := 100
	if *long {
		rounds = 20_000
	}
	s := openRig(t, storetest.StartServer(t))
	ctx := context.Background()
	subject := rules()[0].Subject
	shared := []store.Rule{
		{Subject: subject, Return: 1, Method: store.Count, Time: 3600, Count: 1000, Lease: 200, Weight: 1},
		{Subject: subject, Return: 2, Method: store.Token, Time: 60, Count: 600, Burst: 1000, Lease: 200, Weight: 1},
	}
	usage := func(r store.Rule, at int64, holder string) store.Usage {
		return store.Usage{Now: at, Zone: time.UTC, Rules: []store.Rule{r}, Holder: holder, Reported: true, Allowed: 1, Elapsed: 5000, Lasts: 7000}
	}
	assign := func(u store.Usage) store.Assignment {
		t.Helper()
		a, err := s.Assign(ctx, &u)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for _, r := range shared {
		for _, holder := range []string{"a", "b"} {
			if a := assign(usage(r, now, holder)); !a.Send {
				t.Fatalf("no assignment: %+v", a)
			}
		}
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
		r, at := shared[random.IntN(2)], int64(now+random.IntN(9000))
		for _, holder := range []string{"a", "c", "b"} {
			u := usage(r, at, holder)
			u.Fresh, u.Leave, u.Allowed = random.IntN(3) == 0, random.IntN(9) == 0, []int64{0, 5, 1 << 32}[random.IntN(3)]
			a := assign(u)
			if a.Rate < 0 || a.Rate > 10*1000 || a.Burst < 0 || a.Burst > 100 || a.Lasts > 7000 || a.Send && (a.Rate < 1 || a.Burst < 1 || a.Lasts < 1000) {
				t.Errorf("it assigns %+v", a)
			}
		}
		if admitted := admits(s, at, r, 1000); admitted > 1000 {
			t.Errorf("%d hits were admitted of 1000", admitted)
		}
		if a := s.do(store.Take, at+3*year, r); a.Decider >= 0 {
			t.Errorf("it refuses three years later: %+v", a)
		}
		if t.Failed() {
			t.Fatalf("round %d, method %d, after %x", round, r.Method, value)
		}
	}
}
