package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
)

// RunLeastShares checks that a store assigns shares of the smallest limits of which any can be
// assigned, and refuses smaller ones with the word for what is too small.
func RunLeastShares(t *testing.T, s store.Assigner) {
	t.Helper()
	assign := func(r store.Rule) (store.Assignment, error) {
		return s.Assign(t.Context(), &store.Usage{Now: 1_780_000_000_000, Zone: time.UTC, Rules: []store.Rule{r}, Holder: "edge-1", Reported: true, Denied: 1, Lasts: 7000, Fresh: true})
	}
	for _, c := range []struct {
		lease, burst, count int64 // the least of a bucket and of a window
	}{
		{200, 10, 20}, {199, 11, 21}, {50, 40, 80}, {3, 667, 1334}, {1, 2000, 4000},
	} {
		for i, r := range []store.Rule{
			{Method: store.Token, Time: 60, Count: 6, Burst: c.burst},
			{Method: store.Count, Time: 60, Count: c.count},
			{Method: store.Count, Time: store.Day, Count: c.count},
		} {
			r.Return, r.Lease, r.Subject = int64(i+1), c.lease, fmt.Appendf(nil, "least %d", c.lease)
			if a, err := assign(r); err != nil || !a.Send || a.Burst != 1 || a.Rate < 1 {
				t.Errorf("of %+v: %+v, %v; want a burst of 1, and a rate", r, a, err)
			}
			lack, word := &r.Count, "count"
			if r.Method == store.Token {
				lack, word = &r.Burst, "burst"
			}
			least := *lack
			*lack--
			if got, n := r.TooSmall(); got != word || n != least || r.Unassignable() != word {
				t.Errorf("%+v has too small a %q, less than %d; want %q, less than %d", r, got, n, word, least)
			}
			if _, err := assign(r); err == nil {
				t.Errorf("%+v is shared", r)
			}
		}
	}
	slow := store.Rule{Subject: []byte("slow"), Return: 1, Method: store.Token, Time: 61, Count: 6, Burst: 100, Lease: 200}
	if word, least := slow.TooSmall(); word != "count" || least != 7 {
		t.Errorf("a bucket that is filled with 6 in 61 s has too small a %q, less than %d; want count, less than 7", word, least)
	}
	slow.Count = 7
	if a, err := assign(slow); err != nil || !a.Send || a.Rate != 1 {
		t.Errorf("of %+v: %+v, %v; want a hit in 10 s", slow, a, err)
	}
}

// sharer is a store that assigns shares beside other calls.
type sharer interface {
	store.Store
	store.Assigner
}

// RunResetOfShared checks that a take which is cancelled gives nothing back to a bucket that was
// reset since, while shares of it are assigned.
func RunResetOfShared(t *testing.T, s sharer) {
	t.Helper()
	now := int64(1_780_000_000_000)
	shared := store.Rule{Subject: []byte("reset"), Return: 1, Method: store.Token, Time: 60, Count: 6, Burst: 1000, Lease: 200}
	if a, err := s.Assign(t.Context(), &store.Usage{Now: now, Zone: time.UTC, Rules: []store.Rule{shared}, Holder: "edge-1", Reported: true, Allowed: 1, Lasts: 7000, Fresh: true}); err != nil || !a.Send {
		t.Fatalf("of %+v: %+v, %v; want a share", shared, a, err)
	}
	settled := store.Rule{Subject: []byte("reset"), Return: 2, Method: store.Count, Time: 60, Count: 9, Weight: 1, Settle: 60}
	shared.Weight = 100
	do := func(op store.Op, rules ...store.Rule) *store.Answers {
		t.Helper()
		a := new(store.Answers)
		if err := s.Evaluate(t.Context(), &store.Plan{Op: op, Now: now, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: rules}}}, a); err != nil {
			t.Fatal(err)
		}
		return a
	}
	given := do(store.Take, shared, settled)
	if given.Undo == nil {
		t.Fatal("a take with a receipt cannot be cancelled")
	}
	do(store.Reset, shared)
	do(store.Take, shared)
	want := do(store.Peek, shared).Sets[0].Hits
	if err := s.Cancel(t.Context(), &store.Plan{Op: store.Take, Now: now, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{shared, settled}}}}, given); err != nil {
		t.Fatal(err)
	}
	if got := do(store.Peek, shared).Sets[0].Hits; got != want || got < 100 {
		t.Errorf("%d tokens are missing after the cancellation, want %d as before it, at least 100", got, want)
	}
}

// RunTideOfShared checks that a report gives nothing back that a full bucket lost, also once the
// clock of the store has stepped back.
func RunTideOfShared(t *testing.T, s sharer) {
	t.Helper()
	now := int64(1_780_000_000_000)
	shared := store.Rule{Subject: []byte("tide"), Return: 1, Method: store.Token, Time: 1, Count: 20, Burst: 50, Lease: 200, Weight: 1}
	assign := func(u store.Usage) {
		t.Helper()
		u.Now, u.Zone, u.Rules, u.Holder, u.Lasts = now, time.UTC, []store.Rule{shared}, "edge-1", 7000
		if _, err := s.Assign(t.Context(), &u); err != nil {
			t.Fatal(err)
		}
	}
	take := func() (admitted int) {
		t.Helper()
		p := &store.Plan{Op: store.Take, Now: now, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{shared}}}}
		for range 60 {
			a := new(store.Answers)
			if err := s.Evaluate(t.Context(), p, a); err != nil {
				t.Fatal(err)
			}
			if p.Allowed(a) {
				admitted++
			}
		}
		return admitted
	}
	assign(store.Usage{Reported: true, Denied: 1})
	for range 8 {
		if now += 1000; now%5000 == 0 {
			assign(store.Usage{Reported: true, Allowed: 9, Denied: 13, Elapsed: 5000})
		} else {
			assign(store.Usage{})
		}
	}
	now += 600
	admitted := take()
	now -= 601
	assign(store.Usage{Reported: true, Allowed: 1, Elapsed: 5000})
	if admitted += take(); admitted < 40 || admitted > 50 {
		t.Errorf("a bucket of 50 admits %d hits at one instant", admitted)
	}
}

// RunManyHolders checks that MaxHolders holders get shares of one counter at a time, and that
// shares which have ended make room for others, the one that ended first before the next.
func RunManyHolders(t *testing.T, s store.Assigner) {
	t.Helper()
	now := int64(1_780_000_000_000)
	rule := store.Rule{Subject: []byte("many"), Return: 1, Method: store.Token, Time: 1, Count: 1000, Burst: 20_000, Lease: 200}
	assign := func(holder string) store.Assignment {
		t.Helper()
		now++
		a, err := s.Assign(t.Context(), &store.Usage{Now: now, Zone: time.UTC, Rules: []store.Rule{rule}, Holder: holder, Reported: true, Allowed: 1, Lasts: 7000, Fresh: true})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	come := func(name string) {
		t.Helper()
		for i := range store.MaxHolders {
			if a := assign(fmt.Sprint(name, i)); a.Reason == store.TooMany {
				t.Fatalf("%s%d gets no share: %v", name, i, a.Reason)
			}
		}
		for range 3 {
			if a := assign(name + "further"); a.Reason != store.TooMany || a.Send || a.Holders != store.MaxHolders {
				t.Fatalf("one more than %d holders gets %+v", store.MaxHolders, a)
			}
		}
		if a := assign(fmt.Sprint(name, 0)); a.Reason == store.TooMany {
			t.Fatalf("%s0 loses its share to others", name)
		}
	}
	come("early ")
	now += 8000
	assign("late 0")
	if a := assign("early 2"); a.Debt > 0 {
		t.Errorf("early 2 owes %d hits of a share that has ended", a.Debt)
	}
	if a := assign("early 1"); a.Debt != 1 { // its share was the first to end, as early 0 came again
		t.Errorf("early 1 owes %d hits; want the one of a share that is forgotten", a.Debt)
	}
	now += 8000
	come("late ")
}
