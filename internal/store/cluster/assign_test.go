package cluster_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/koalagate/koalagate/internal/store"
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
}
