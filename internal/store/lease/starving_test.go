package lease

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// requester makes requests for parts at the time of a test.
type requester struct {
	*redis.Store
	now *int64
}

// Lease requests a part.
func (r requester) Lease(ctx context.Context, l *store.Lease) (store.Grant, error) {
	l.Now = *r.now
	return r.Store.Lease(ctx, l)
}

// starved is a store whose clock a test moves.
func starved(t *testing.T, shared *redis.Store, now *int64) *Store {
	t.Helper()
	begin := *now
	return New(shared, requester{shared, now}, Options{
		Clock: func() time.Duration { return time.Duration(*now-begin)*time.Millisecond + time.Hour },
		Now:   func() int64 { return *now },
		Run:   func(request func()) { request() },
	})
}

// takeAt takes a hit and reports whether it was admitted.
func takeAt(t *testing.T, s store.Store, now int64, r store.Rule) bool {
	t.Helper()
	var a store.Answers
	p := &store.Plan{Op: store.Take, Now: now, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{r}}}}
	if err := s.Evaluate(t.Context(), p, &a); err != nil {
		t.Fatal(err)
	}
	return a.Sets[0].Decider < 0
}

var busy = store.Rule{Subject: []byte("busy"), Return: 1, Method: store.Count, Time: 3600, Count: 10_000, Lease: 50, Weight: 1}

// A caller that makes an instance hold parts by bursts, and never uses them, wastes nothing:
// the instance gives back what is idle, and all hits are there for the others.
func TestBurstsThatAreNotUsedWasteNothing(t *testing.T) {
	t.Parallel()
	shared := storetest.StartServer(t).Open(t, func(o *redis.Options) { o.Refusals = -1 })
	now := int64(beginning)
	s := starved(t, shared, &now)
	admitted := int64(0)
	for i := range 200 { // bursts at all distances, those of the sweeps too
		for range busyFrom + 4 {
			if takeAt(t, s, now, busy) {
				admitted++
			}
		}
		for range 1 + i%10 {
			now += 250
			s.Sweep()
		}
	}
	s.Close()
	if lost := s.Stats().Lost; lost != 0 {
		t.Errorf("%d hits were lost by bursts", lost)
	}
	for takeAt(t, shared, now, busy) {
		admitted++
	}
	if admitted != busy.Count {
		t.Errorf("%d hits were admitted; want all %d", admitted, busy.Count)
	}
}

// An instance that asks for all it can get under many names, lies about its demand and about
// what it holds, and never spends anything, holds the share of the rule at most: honest
// callers get the rest, and nobody more.
func TestGreedyInstancesHoldTheShareAtMost(t *testing.T) {
	t.Parallel()
	const most = 1<<48 - 1
	shared := storetest.StartServer(t).Open(t, func(o *redis.Options) { o.Refusals = -1 })
	now := int64(beginning)
	takeAt(t, shared, now, busy)
	granted := int64(0)
	for i := range int64(500) {
		l := &store.Lease{Now: now, Rule: busy, Ask: most, Lasts: 2000}
		if i%2 == 1 { // it claims to hold what others do
			l.Era, l.Ends, l.Drop, l.Keep = now, now+2000, most, most
		}
		g, err := shared.Lease(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		granted += g.Granted
		if share := busy.Count * busy.Lease / 1000; g.Granted < 0 || granted > share || g.Held > share {
			t.Fatalf("request %d: %+v, %d granted in all; want at most %d", i, g, granted, share)
		}
	}
	admitted := int64(1)
	for takeAt(t, shared, now, busy) {
		admitted++
	}
	if admitted != busy.Count-granted || granted == 0 {
		t.Errorf("honest callers got %d hits beside %d that are held", admitted, granted)
	}
}

// A flood of identities takes the places of parts, and those alone: an identity without a
// part is decided in Redis, and no part makes way for another.
func TestFloodOfIdentitiesTakesNoPartAway(t *testing.T) {
	t.Parallel()
	shared := storetest.StartServer(t).Open(t, func(o *redis.Options) { o.Refusals = -1 })
	now := int64(beginning)
	s := starved(t, shared, &now)
	for range 40 {
		takeAt(t, s, now, busy)
	}
	held := s.Stats().Held
	for i := range 64 * maxParts / 4 { // of all places
		shard := &s.shards[i%shardCount]
		for j := range 4 {
			name := fmt.Sprintf("flood %d %d", i, j)
			if len(shard.parts) < maxParts {
				shard.parts[name] = &part{name: name, used: s.clock()}
			}
		}
	}
	if s.partOf(&busy) == nil || s.Stats().Held < held || held == 0 {
		t.Errorf("%d hits are held; want the part with %d", s.Stats().Held, held)
	}
	late := busy
	late.Subject, late.Count = []byte("late"), 100
	admitted := int64(0)
	for takeAt(t, s, now, late) {
		admitted++
	}
	if admitted != late.Count || s.partOf(&late) != nil {
		t.Errorf("an identity without a part was admitted %d times; want %d", admitted, late.Count)
	}
	// The places are free again when the flood is over.
	now += 5000
	s.Sweep()
	late.Subject = []byte("later")
	for range 20 {
		takeAt(t, s, now, late)
	}
	if s.partOf(&late) == nil {
		t.Error("the flood still takes the places")
	}
}

// A clock of Redis that jumps, in either direction and by any time, admits nothing beyond the
// limit of the windows that it opens, and nothing refuses when it is back.
func TestClockOfRedisThatJumps(t *testing.T) {
	t.Parallel()
	shared := storetest.StartServer(t).Open(t, func(o *redis.Options) { o.Refusals = -1 })
	bucket := store.Rule{Subject: []byte("bucket"), Return: 2, Method: store.Token, Time: 3600, Count: 1000, Burst: 1000, Lease: 200, Weight: 1}
	for _, jump := range []int64{-40_000, -3_000_000, 3_000_000, -90_000_000} {
		now := int64(beginning)
		r := bucket
		r.Subject = fmt.Appendf(nil, "bucket %d", jump)
		s := starved(t, shared, &now)
		admitted := int64(0)
		for range 50 {
			if takeAt(t, s, now, r) {
				admitted++
			}
		}
		held := s.Stats().Held
		for range 2000 { // what Redis admits at the other time, while the part is held
			if takeAt(t, shared, now+jump, r) {
				admitted++
			}
		}
		refilled := max(jump, 0) * r.Count / (r.Time * 1000)
		if most := r.Burst + refilled; admitted+held > most || held == 0 {
			t.Errorf("a jump by %d ms: %d hits admitted and %d held of %d", jump, admitted, held, most)
		}
		if !takeAt(t, shared, now+2*3600_000+max(jump, 0), r) {
			t.Errorf("a jump by %d ms: the bucket refuses two hours later", jump)
		}
		s.Close()
	}
}
