package cluster_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/cluster"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/store/storetest/machine"
)

// TestSharesOverSlots lets gateways share limits of a Cluster, whose counters are in several
// slots, with each other and with single hits.
func TestSharesOverSlots(t *testing.T) {
	n := 25
	if *long {
		n = 10_000
	}
	s := storetest.StartCluster(t, 3, false).Open(t, redis.Options{Linger: time.Hour, Refusals: -1})
	machine.Parts(t, n, func(t *testing.T, name string) {
		dialogues, assigned := 0, 0
		rapid.Check(t, func(rt *rapid.T) {
			dialogues++
			assigned += machine.ShareDialogue(rt, s, 1_780_000_000_000, fmt.Sprint(name, " shared ", dialogues)).Assigned
		})
		if assigned == 0 {
			t.Error("nothing was assigned")
		}
		t.Logf("%d dialogues with %d assignments", dialogues, assigned)
	})
}

// TestSharesOfSeveralSlotsAreTheLeast has a holder share two limits, in two slots: it gets the
// least of both, and what the other reserved beyond that is lent again.
func TestSharesOfSeveralSlotsAreTheLeast(t *testing.T) {
	s := storetest.StartCluster(t, 3, false).Open(t, redis.Options{Linger: time.Hour, Refusals: -1})
	wide := store.Rule{Subject: []byte("wide"), Return: 1, Method: store.Token, Time: 1, Count: 1000, Burst: 2000, Lease: 200}
	narrow := store.Rule{Subject: []byte("narrow"), Return: 2, Method: store.Token, Time: 1, Count: 10, Burst: 50, Lease: 200}
	assign := func(holder string, rules ...store.Rule) store.Assignment {
		a, err := s.Assign(context.Background(), &store.Usage{Now: 1_780_000_000_000, Zone: time.UTC, Rules: rules, Holder: holder, Reported: true, Denied: 5000, Elapsed: 5000, Lasts: 7000})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if a := assign("both", wide, narrow); !a.Send || a.Rate > 200 || a.Rule != 1 {
		t.Errorf("the share of both limits is %+v", a)
	}
	if a := assign("one", wide); a.Lent-a.Rate > 200 {
		t.Errorf("%d of the wide limit stay reserved for the other holder: %+v", a.Lent-a.Rate, a)
	}
	hourly := store.Rule{Subject: []byte("hourly"), Return: 3, Method: store.Count, Time: 3600, Count: 2010, Lease: 200, Weight: 1}
	narrow.Subject = []byte("narrow too")
	a := assign("hour", hourly, narrow)
	if n, most := hourly.Count-take(t, s, 0, hourly, hourly.Count), a.Burst+(a.Rate*7500+9999)/10_000; !a.Send || n > most {
		t.Errorf("%d hits of an hour are reserved for %+v; want %d at most", n, a, most)
	}
}

// sharing is two limits in two slots of a Cluster, of which the narrow one has nothing left.
func sharing(t *testing.T, narrow store.Rule) (s *cluster.Store, wide store.Rule) {
	t.Helper()
	s = storetest.StartCluster(t, 3, false).Open(t, redis.Options{Linger: time.Hour, Refusals: -1})
	if n := take(t, s, 0, narrow, narrow.Count+1); n != narrow.Count {
		t.Fatalf("the narrow limit admits %d; want %d", n, narrow.Count)
	}
	return s, store.Rule{Subject: []byte("wide"), Return: 1, Method: store.Token, Time: 10, Count: 100, Burst: 200, Lease: 200, Weight: 1}
}

// take takes n hits, and returns how many are admitted.
func take(t *testing.T, s *cluster.Store, at int64, r store.Rule, n int64) (admitted int64) {
	t.Helper()
	p := &store.Plan{Op: store.Take, Now: 1_780_000_000_000 + at, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{r}}}}
	for range n {
		var a store.Answers
		if err := s.Evaluate(t.Context(), p, &a); err != nil {
			t.Fatal(err)
		}
		if p.Allowed(&a) {
			admitted++
		}
	}
	return admitted
}

// TestSlotsTakeBackWhatIsNotSent has holders ask for shares of a limit that has all left, and of
// one in another slot that has nothing: they get nothing, and the former loses nothing.
func TestSlotsTakeBackWhatIsNotSent(t *testing.T) {
	narrow := store.Rule{Subject: []byte("narrow"), Return: 2, Method: store.Count, Time: 3600, Count: 100, Lease: 200, Weight: 1}
	s, wide := sharing(t, narrow)
	for at := int64(1); at < 30_000; at += 1000 {
		for _, holder := range []string{"a", "b", "c"} {
			u := &store.Usage{Now: 1_780_000_000_000 + at, Zone: time.UTC, Rules: []store.Rule{wide, narrow}, Holder: holder, Lasts: 7000, Fresh: true}
			if at%5000 == 1 {
				u.Reported, u.Denied, u.Elapsed = true, 50, min(at/1000, 1)*5000
			}
			if a, err := s.Assign(t.Context(), u); err != nil || a.Send || a.Rate > 0 || a.Forfeited > 0 || a.Reason != store.NoRate {
				t.Fatalf("after %d ms %s gets %+v, %v; want nothing", at, holder, a, err)
			}
		}
	}
	if n := take(t, s, 30_000, wide, 201); n != 200 {
		t.Errorf("the wide limit admits %d; want its burst, 200", n)
	}
}

// TestBansShowOverSlots bans the subject of one limit, while another slot has no share to give.
func TestBansShowOverSlots(t *testing.T) {
	narrow := store.Rule{Subject: []byte("narrow"), Return: 2, Method: store.Count, Time: 60, Count: 100, Ban: 600, Lease: 200, Weight: 1}
	s, wide := sharing(t, narrow)
	take(t, s, 0, wide, 200)
	for _, rules := range [][]store.Rule{{wide, narrow}, {narrow, wide}} {
		u := &store.Usage{Now: 1_780_000_000_000, Zone: time.UTC, Rules: rules, Holder: "a", Reported: true, Denied: 1, Lasts: 7000, Fresh: true}
		if a, err := s.Assign(t.Context(), u); err != nil || a.Reason != store.BannedNow || a.Banned == 0 {
			t.Errorf("a banned holder gets %+v, %v", a, err)
		}
	}
}
