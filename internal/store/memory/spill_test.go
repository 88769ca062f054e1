package memory

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/koalagate/koalagate/internal/store"
)

// isLong reports whether the long form of the tests runs.
func isLong() bool { return flag.Lookup("long").Value.String() == "true" }

// clocked is a store with a clock that the test sets.
type clocked struct {
	*Store
	now int64
	a   store.Answers
}

func newClocked(bound int) *clocked {
	s := &clocked{now: 1_793_505_600_000}
	s.Store = New(Options{Clock: func() int64 { return s.now }, MaxIdentities: bound})
	return s
}

// admits carries out one operation on one rule and reports whether it admits.
func (s *clocked) admits(t interface{ Fatal(...any) }, op store.Op, r store.Rule) bool {
	if err := s.Evaluate(context.Background(), one(op, 0, r), &s.a); err != nil {
		t.Fatal(err)
	}
	return s.a.Sets[0].Decider < 0
}

// TestFullStoreAdmitsNoIdentityTooMuch checks that no identity is admitted more than
// its limit in any window, however full the store is.
func TestFullStoreAdmitsNoIdentityTooMuch(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newClocked(rapid.SampledFrom([]int{1, 128, 640}).Draw(rt, "max"))
		r := store.Rule{Return: 1, Method: store.Leak, Time: 100, Count: 2, Weight: 1}
		admitted := make(map[int][]int64)
		for range 500 {
			s.now += rapid.SampledFrom([]int64{0, 1, 40, 500}).Draw(rt, "move")
			who := rapid.IntRange(0, 300).Draw(rt, "who")
			r.Subject = fmt.Appendf(nil, "%d", who)
			if rapid.IntRange(0, 30).Draw(rt, "refund") == 0 {
				// A refund permits a further take, so only identities without hits in
				// the window refund.
				if !slices.ContainsFunc(admitted[who], func(at int64) bool { return at > s.now-100_000 }) {
					s.admits(rt, store.Refund, r)
				}
				continue
			}
			if !s.admits(rt, store.Take, r) {
				continue
			}
			list := append(admitted[who], s.now)
			if n := len(list); n > 2 && list[n-3] > s.now-100_000 {
				rt.Fatalf("identity %d was admitted at %v; want at most 2 in 100 s", who, list[n-3:])
			}
			admitted[who] = list
		}
	})
}

// TestFloodOfIdentities counts for far more identities than fit. The store stays
// within its bound, and identities that were limited before stay limited.
func TestFloodOfIdentities(t *testing.T) {
	const bound = 50_000
	flood := 150_000
	if isLong() {
		flood = 10_000_000
	}
	s := newClocked(bound)
	limited := func(who string) store.Rule { return perMinute(who, 1) }
	for i := range 1000 {
		s.admits(t, store.Take, limited(fmt.Sprintf("before-%d", i)))
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range flood {
		if i%1000 == 0 {
			s.now++
		}
		s.admits(t, store.Take, limited(fmt.Sprintf("flood-%d", i)))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if n := s.Identities(); n > bound+shards || n < bound*9/10 {
		t.Errorf("%d identities have counters of their own; want at most %d, and nearly as many", n, bound)
	}
	used := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d identities, bound %d: %d MB, %d bytes per identity with its own counter", flood, bound, used>>20, used/bound)
	if used > bound*400 {
		t.Errorf("they take %d MB; want at most %d", used>>20, bound*400>>20)
	}
	if s.Shared() == 0 {
		t.Error("nothing was counted on shared counters")
	}
	for i := range 1000 {
		if s.admits(t, store.Take, limited(fmt.Sprintf("before-%d", i))) {
			t.Fatalf("before-%d is admitted after the flood", i)
		}
	}
	for i := 0; i < flood; i += flood / 1000 {
		if s.now < 1_793_505_600_000+60_000 && s.admits(t, store.Take, limited(fmt.Sprintf("flood-%d", i))) {
			t.Fatalf("flood-%d is admitted after the flood", i)
		}
	}
	t.Run("after its end", func(t *testing.T) {
		s.now += 10 * 60_000
		for range 100_000 {
			s.now += sweepEvery
			s.admits(t, store.Take, limited("another"))
		}
		if n := s.Identities(); n > shards*sweepFrom/8 {
			t.Errorf("%d identities are kept long after their end; want all shards swept in turn", n)
		}
		if !s.admits(t, store.Take, limited("before-1")) {
			t.Error("an identity that was limited stays limited forever")
		}
	})
}

// TestOwnCountersStartAsCopiesOfSharedOnes checks that an identity that was limited
// on a shared counter stays limited when it gets a counter of its own.
func TestOwnCountersStartAsCopiesOfSharedOnes(t *testing.T) {
	for _, r := range []store.Rule{
		{Return: 1, Method: store.Count, Time: 3600, Count: 3, Weight: 1},
		{Return: 2, Method: store.Count, Time: store.Day, Count: 3, Weight: 1},
		{Return: 3, Method: store.Base, Time: 3600, Base: 2, Count: 2, Weight: 1},
		{Return: 4, Method: store.Leak, Time: 3600, Count: 3, Weight: 1},
		{Return: 5, Method: store.Token, Time: 3600, Count: 1, Burst: 3, Weight: 1},
	} {
		s := newClocked(1) // one in each of the 64 shards
		brief := store.Rule{Return: 9, Method: store.Count, Time: 10, Count: 1, Weight: 1}
		for i := range 2000 {
			brief.Subject = fmt.Appendf(nil, "brief-%d", i)
			s.admits(t, store.Take, brief)
		}
		r.Subject = []byte("u")
		for s.admits(t, store.Take, r) {
		}
		refund := r
		refund.Subject = []byte("another")
		s.admits(t, store.Refund, refund)
		if s.own(r) {
			t.Fatalf("%+v has a counter of its own in a full store", r)
		}
		s.now += 90_000 // the brief counters have ended
		for range 200 {
			s.now += sweepEvery
			s.admits(t, store.Browse, brief)
		}
		if s.admits(t, store.Take, r) {
			t.Errorf("%+v: refused in a full store, and admitted when the subject fits", r)
		}
		s.admits(t, store.Update, r)
		if !s.own(r) {
			t.Errorf("%+v has no counter of its own although the subject fits", r)
		}
		if s.admits(t, store.Take, r) {
			t.Errorf("%+v: refused on a shared counter, and admitted on its own", r)
		}
	}
}

// own reports whether the rule's subject has a counter of its own.
func (s *clocked) own(r store.Rule) bool {
	subject, _ := s.keptUnder(r.Subject, nil)
	for i := range s.shards {
		if s.shards[i].find(subject, &r) != nil {
			return true
		}
	}
	return false
}

// TestSharedCountersAreBounded shares counters of more rules and parts than fit: the
// excess uses one last counter per rule.
func TestSharedCountersAreBounded(t *testing.T) {
	s := newClocked(1)
	for rule := range int64(200) {
		for who := range 100 {
			s.admits(t, store.Take, store.Rule{Subject: fmt.Appendf(nil, "%d", who), Return: rule + 1, Method: store.Count, Time: 3600, Count: 1, Weight: 1})
		}
	}
	for i := range s.shards {
		if n := len(s.shards[i].spilled); n > parts+1+200 {
			t.Errorf("a shard has %d shared counters; want at most %d, and one per rule", n, parts+1)
		}
	}
}
