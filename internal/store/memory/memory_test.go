package memory

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
)

// one is a plan of one set with one rule.
func one(op store.Op, now int64, r store.Rule) *store.Plan {
	return &store.Plan{Op: op, Now: now, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{r}}}}
}

func perMinute(subject string, count int64) store.Rule {
	return store.Rule{Subject: []byte(subject), Return: 1, Weight: 1, Time: 60, Count: count, Method: store.Count}
}

func TestEndedCountersAreDropped(t *testing.T) {
	m := New(Options{})
	defer m.Close()
	var a store.Answers
	const each = 20_000
	for wave := range int64(4) {
		for i := range each {
			p := one(store.Take, 1_000_000+wave*10*60_000, perMinute(fmt.Sprintf("%d-%d", wave, i), 1))
			if err := m.Evaluate(context.Background(), p, &a); err != nil {
				t.Fatal(err)
			}
		}
	}
	if kept := subjectsOf(m); kept > each*3/2 {
		t.Errorf("%d subjects are kept after four waves of %d, want about one wave", kept, each)
	}
}

// TestMemoryOfAFloodIsReleased checks that identities leave no memory behind after
// they ended: neither counters nor large maps.
func TestMemoryOfAFloodIsReleased(t *testing.T) {
	s := newClocked(0)
	defer s.Close()
	begin := heapInUse()
	for i := range 200_000 {
		s.admits(t, store.Take, perMinute(fmt.Sprintf("flood-%d", i), 1))
	}
	flooded := heapInUse() - begin
	s.now += 10 * 60_000
	for range 30_000 {
		s.now += sweepEvery
		s.admits(t, store.Browse, perMinute("another", 1))
	}
	if left := heapInUse() - begin; left > flooded/20 {
		t.Errorf("%d of %d bytes are kept after all identities ended", left, flooded)
	}
}

// TestSweepsFindEndedCountersAmongOthers checks that identities that have ended do not stay
// because most of the others have not, although a sweep stops at the first sample of them
// of which none has ended.
func TestSweepsFindEndedCountersAmongOthers(t *testing.T) {
	const lasting, brief = 20_000, 5000
	s := newClocked(0)
	defer s.Close()
	perDay := perMinute("", 1)
	perDay.Time = store.Day
	for i := range lasting {
		perDay.Subject = fmt.Appendf(nil, "lasting-%d", i)
		s.admits(t, store.Take, perDay)
	}
	for i := range brief {
		s.admits(t, store.Take, perMinute(fmt.Sprintf("brief-%d", i), 1))
	}
	s.now += 10 * 60_000
	for range 200 * shards {
		s.now += sweepEvery
		s.admits(t, store.Browse, perMinute("another", 1))
	}
	if n := s.Identities(); n < lasting || n > lasting+brief/20 {
		t.Errorf("%d identities are kept, of which %d have not ended; want at most %d that have", n, lasting, brief/20)
	}
}

// TestLongNamesTakeNoMoreMemory counts for names of 4 kB that differ only in their
// last bytes. Each has a counter of its own, and takes no more memory than a short
// name.
func TestLongNamesTakeNoMoreMemory(t *testing.T) {
	const identities = 5000
	s := newClocked(0)
	defer s.Close()
	before := heapInUse()
	name := bytes.Repeat([]byte("x"), 4<<10)
	for range 2 {
		for i := range identities {
			s.admits(t, store.Take, store.Rule{Subject: fmt.Append(name[:len(name):len(name)], i), Return: 1, Weight: 1, Time: 60, Count: 9, Method: store.Count})
		}
	}
	if each := (heapInUse() - before) / identities; each > 400 {
		t.Errorf("an identity takes %d bytes; want as few as one with a short name", each)
	}
	for _, i := range []int{0, identities - 1} {
		r := store.Rule{Subject: fmt.Append(name, i), Return: 1, Time: 60, Count: 9, Method: store.Count}
		s.admits(t, store.Peek, r)
		if hits := s.a.Sets[0].Hits; hits != 2 {
			t.Errorf("identity %d has %d hits; want 2", i, hits)
		}
		s.admits(t, store.Reset, r)
		if s.own(r) {
			t.Errorf("identity %d has a counter after a reset", i)
		}
	}
}

// heapInUse returns the bytes on the heap after a garbage collection.
func heapInUse() int64 {
	runtime.GC()
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	return int64(now.HeapAlloc)
}

func TestConcurrentTakesAdmitExactlyTheLimit(t *testing.T) {
	m := New(Options{})
	defer m.Close()
	var wg sync.WaitGroup
	var mu sync.Mutex
	admitted := 0
	for range 400 {
		wg.Go(func() {
			var a store.Answers
			if err := m.Evaluate(context.Background(), one(store.Take, 0, perMinute("u", 10)), &a); err != nil {
				t.Error(err)
			}
			if a.Sets[0].Decider < 0 {
				mu.Lock()
				admitted++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if admitted != 10 {
		t.Errorf("%d of 400 were admitted, want 10", admitted)
	}
}

// TestPanicInAStepReleasesLocks checks that a panic leaves no shard locked: every
// later step on that shard would wait forever.
func TestPanicInAStepReleasesLocks(t *testing.T) {
	broken := true
	m := New(Options{Clock: func() int64 {
		if broken {
			panic("no clock")
		}
		return 1_000_000
	}})
	defer m.Close()
	p, a := one(store.Take, 0, perMinute("u", 10)), new(store.Answers)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic did not reach the caller")
			}
		}()
		_ = m.Evaluate(context.Background(), p, a)
	}()
	broken = false
	for i := range m.shards {
		if !m.shards[i].TryLock() {
			t.Fatalf("the lock of shard %d is still held", i)
		}
		m.shards[i].Unlock()
	}
	if err := m.Evaluate(context.Background(), p, a); err != nil || a.Sets[0].Remaining != 9 {
		t.Errorf("the next step: %+v, %v; want 9 remaining", a.Sets[0], err)
	}
}

// BenchmarkTake measures a take of one rule of each method, with a counter that is in
// use and never full.
func BenchmarkTake(b *testing.B) {
	for name, r := range map[string]store.Rule{
		"count": {Method: store.Count, Time: 60, Count: 1 << 31},
		"day":   {Method: store.Count, Time: store.Day, Count: 1 << 31},
		"base":  {Method: store.Base, Time: 60, Base: 1 << 31, Count: 1 << 31},
		"leak":  {Method: store.Leak, Time: 60, Count: 100},
		"token": {Method: store.Token, Time: 1, Count: 1 << 31, Burst: 1 << 31},
	} {
		b.Run(name, func(b *testing.B) {
			m := New(Options{})
			defer m.Close()
			r.Subject, r.Return, r.Weight = []byte("u"), 1, 1
			p, a := one(store.Take, 0, r), new(store.Answers)
			b.ReportAllocs()
			for b.Loop() {
				if err := m.Evaluate(context.Background(), p, a); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
