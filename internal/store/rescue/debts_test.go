package rescue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// fakeRedis is a shared store whose answers to takes may be lost, or late.
type fakeRedis struct {
	*memory.Store
	mu     sync.Mutex
	health store.Health // of the takes
	counts bool         // takes that fail are counted
	hold   time.Duration
	flies  time.Duration // takes that fail end that much later, without their callers
}

var errFake = errors.New("no answer")

// TryAssign assigns shares, or fails as takes do.
func (f *fakeRedis) TryAssign(ctx context.Context, u *store.Usage) (store.Assignment, store.Attempt, error) {
	f.mu.Lock()
	health := f.health
	f.mu.Unlock()
	if health != store.Answered {
		return store.Assignment{}, store.Attempt{Health: health}, errFake
	}
	a, err := f.Assign(ctx, u)
	return a, store.Attempt{Health: health}, err
}

func (f *fakeRedis) Try(ctx context.Context, p *store.Plan, a *store.Answers) (store.Attempt, error) {
	f.mu.Lock()
	health, counts, hold, flies := f.health, f.counts, f.hold, f.flies
	f.mu.Unlock()
	if p.Op != store.Take {
		return store.Attempt{Health: store.Answered}, f.Evaluate(ctx, p, a)
	}
	if health == store.Answered {
		err := f.Evaluate(ctx, p, a)
		time.Sleep(hold)
		return store.Attempt{Health: health}, err
	}
	if flies > 0 {
		return store.Attempt{Health: health, Late: f.fly(context.WithoutCancel(ctx), cloned(p), counts, flies)}, errFake
	}
	if counts {
		_ = f.Evaluate(ctx, p, a)
	}
	return store.Attempt{Health: health, Unsent: !counts}, errFake
}

func (f *fakeRedis) Check(context.Context) error { return nil }

// becomes changes the answers to takes.
func (f *fakeRedis) becomes(health store.Health, counts bool, hold time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.health, f.counts, f.hold, f.flies = health, counts, hold, 0
}

// delays makes takes fail, and end later.
func (f *fakeRedis) delays(counts bool, by time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.health, f.counts, f.flies = store.Starved, counts, by
}

// lateTake is a take whose caller has left.
type lateTake struct {
	ended chan struct{}
	a     store.Answers
	err   error
}

func (f *fakeRedis) fly(ctx context.Context, p *store.Plan, counts bool, flies time.Duration) *lateTake {
	l := &lateTake{ended: make(chan struct{}), err: redisconn.ErrUnsent}
	go func() {
		defer close(l.ended)
		time.Sleep(flies)
		if counts {
			l.err = f.Evaluate(ctx, p, &l.a)
		}
	}()
	return l
}

// Result implements store.Late.
func (l *lateTake) Result(_ *store.Plan, a *store.Answers) (ended bool, err error) {
	select {
	case <-l.ended:
		*a = l.a
		return true, l.err
	default:
		return false, nil
	}
}

// openFake opens a store over a fakeRedis.
func openFake(t *testing.T) (*Store, *fakeRedis) {
	t.Helper()
	redis := &fakeRedis{Store: memory.New(memory.Options{}), health: store.Answered}
	s := New(redis, memory.New(memory.Options{}), Options{})
	return s, redis
}

// take takes a hit of a limit per hour, and reports whether it is admitted.
func (s *Store) take(t *testing.T, subject string, limit int64) (admitted bool, a store.Answers) {
	t.Helper()
	p := &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{
		{Subject: []byte(subject), Return: 1, Method: store.Count, Time: 3600, Count: limit, Weight: 1},
	}}}}
	if err := s.Evaluate(context.Background(), p, &a); err != nil {
		t.Error(err)
	}
	return p.Allowed(&a), a
}

func takeMany(t *testing.T, s *Store, n int, limit int64) (admitted int64) {
	t.Helper()
	for range n {
		if ok, _ := s.take(t, "u", limit); ok {
			admitted++
		}
	}
	return admitted
}

// seedHook is a local store that calls a function before each Seed.
type seedHook struct {
	*memory.Store
	before func()
}

func (h *seedHook) Seed(p *store.Plan, a *store.Answers) {
	h.before()
	h.Store.Seed(p, a)
}

// TestNoCallBorrowsWhileAnAnswerIsCorrected has a call borrow at the moment at which an answer
// of Redis is seeded with what is owed, if it can: hits of both must be seen later.
func TestNoCallBorrowsWhileAnAnswerIsCorrected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 10
		redis := &fakeRedis{Store: memory.New(memory.Options{}), health: store.Answered}
		local := &seedHook{memory.New(memory.Options{}), func() {}}
		s := New(redis, local, Options{})
		defer s.Close()
		admitted := takeMany(t, s, 5, limit)
		redis.delays(true, time.Second)
		admitted += takeMany(t, s, 3, limit)
		redis.becomes(store.Answered, true, 0)
		seeds := 0
		local.before = func() {
			seeds++
			if seeds == 2 && s.debts.mu.TryLock() {
				s.debts.mu.Unlock()
				redis.delays(true, time.Second)
				admitted += takeMany(t, s, 1, limit)
			}
		}
		admitted += takeMany(t, s, 1, limit)
		if seeds != 2 {
			t.Fatalf("the answer was seeded %d times; want it seeded as it was and corrected", seeds)
		}
		redis.delays(true, time.Second)
		if admitted += takeMany(t, s, 5, limit); admitted != limit {
			t.Errorf("%d calls were admitted; want %d", admitted, limit)
		}
		time.Sleep(2 * time.Second) // the late calls end
	})
}

// TestStarvedCallsTakeWhatRedisHasLeft checks that starved calls are admitted up
// to what Redis last reported, and are charged to Redis.
func TestStarvedCallsTakeWhatRedisHasLeft(t *testing.T) {
	for _, health := range []store.Health{store.Starved, store.Failed} {
		synctest.Test(t, func(t *testing.T) {
			s, redis := openFake(t)
			defer s.Close()
			if got := takeMany(t, s, 400, 500); got != 400 {
				t.Fatalf("%d calls were admitted of 500; want 400", got)
			}
			redis.becomes(health, false, 0)
			calls := 300
			if health == store.Failed {
				calls = 2 // a third one leaves Redis
			}
			got := takeMany(t, s, calls, 500)
			if want := min(int64(calls), 100); got != want {
				t.Errorf("%d starved calls were admitted with 100 of 500 left; want %d", got, want)
			}
			if s.State().Degraded {
				t.Error("Redis was left")
			}
			redis.becomes(store.Answered, false, 0)
			// Before the charge, and after it.
			for range 2 {
				if ok, a := s.take(t, "u", 500); calls == 300 && (ok || a.Degraded) {
					t.Errorf("admitted %v in process %v beyond the limit", ok, a.Degraded)
				}
				time.Sleep(time.Minute)
			}
			if left := 500 - 400 - got; left == 0 {
				return
			}
			// What was owed is in the counter of Redis, and on no other.
			if _, a := s.take(t, "u", 500); a.Sets[0].Remaining != 500-400-got-3 {
				t.Errorf("%d remain in Redis; want %d", a.Sets[0].Remaining, 500-400-got-3)
			}
			if n := s.debts.size.Load(); n != 0 {
				t.Errorf("%d debts are left a minute later", n)
			}
		})
	}
}

// TestLateAnswersYieldToDebts checks that admissions by Redis that arrive after
// starved calls were admitted in process stand only as far as the limit allows.
// How many of each are admitted depends on when the first charge reports what
// Redis has left.
func TestLateAnswersYieldToDebts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, redis := openFake(t)
		defer s.Close()
		redis.becomes(store.Answered, false, 500*time.Millisecond)
		var late atomic.Int64
		var callers sync.WaitGroup
		for range 30 {
			callers.Go(func() { late.Add(takeMany(t, s, 1, 60)) })
		}
		synctest.Wait() // Redis has counted them, and reported nothing
		redis.becomes(store.Starved, false, 0)
		starved := takeMany(t, s, 100, 60)
		callers.Wait()
		if starved < 30 || starved+late.Load() > 60 {
			t.Errorf("%d starved calls and %d late ones were admitted; want at least 30 starved ones, and 60 in all at most", starved, late.Load())
		}
	})
}

// TestAdmissionsNeverExceedALimit takes hits at random: answered, late, starved
// before or after Redis counted them. No limit is exceeded.
func TestAdmissionsNeverExceedALimit(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			s, redis := openFake(t)
			defer s.Close()
			const identities, limit = 5, 60
			var mu sync.Mutex
			admitted := make(map[string]int64)
			var callers sync.WaitGroup
			for range 1000 {
				delay := time.Duration(random.IntN(100)) * time.Millisecond
				switch random.IntN(5) {
				case 0:
					redis.becomes(store.Starved, random.IntN(2) == 0, 0)
				case 1:
					redis.becomes(store.Answered, false, delay)
				case 2:
					if random.IntN(4) == 0 {
						delay *= 50 // more than flightTime
					}
					redis.delays(random.IntN(2) == 0, delay+1)
				default:
					redis.becomes(store.Answered, false, 0)
				}
				subject := fmt.Sprint("u", random.IntN(identities))
				callers.Go(func() {
					if ok, _ := s.take(t, subject, limit); ok {
						mu.Lock()
						admitted[subject]++
						mu.Unlock()
					}
				})
				synctest.Wait()
				pause := time.Duration(random.IntN(3)) * time.Millisecond
				if random.IntN(100) == 0 {
					pause *= 500
				}
				time.Sleep(pause)
			}
			callers.Wait()
			for subject, n := range admitted {
				if n > limit {
					t.Errorf("seed %d: %s was admitted %d times; want at most %d", seed, subject, n, limit)
				}
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if n := s.debts.size.Load(); n != 0 {
				t.Errorf("seed %d: %d debts are left", seed, n)
			}
		})
	}
}

// TestCallsThatRedisDoesNotGetAreCharged checks that hits of calls whose callers left are
// owed until the calls end, however late, and are charged if Redis did not get them.
func TestCallsThatRedisDoesNotGetAreCharged(t *testing.T) {
	for _, counts := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s, redis := openFake(t)
			defer s.Close()
			if got := takeMany(t, s, 10, 60); got != 10 {
				t.Fatalf("%d calls were admitted of 60; want 10", got)
			}
			redis.delays(counts, time.Minute)
			if got := takeMany(t, s, 20, 60); got != 20 {
				t.Errorf("%d starved calls were admitted; want 20", got)
			}
			redis.becomes(store.Answered, false, 0)
			time.Sleep(30 * time.Second)
			if got := takeMany(t, s, 60, 60); got != 30 {
				t.Errorf("%d calls were admitted while 20 of 60 hits are on their way and 10 are counted; want 30", got)
			}
			time.Sleep(2 * time.Minute)
			var a store.Answers
			if err := redis.Evaluate(context.Background(), peek("u"), &a); err != nil || a.Sets[0].Hits < 60 {
				t.Errorf("counted %v: Redis has %d hits, %v; want the 60 that were admitted at least", counts, a.Sets[0].Hits, err)
			}
			if n := s.debts.size.Load(); n != 0 {
				t.Errorf("%d debts are left", n)
			}
		})
	}
}

// peek is a plan that reads the counter of takes.
func peek(subject string) *store.Plan {
	return &store.Plan{Op: store.Peek, Zone: time.UTC, Sets: []store.Set{{Rules: []store.Rule{
		{Subject: []byte(subject), Return: 1, Method: store.Count, Time: 3600, Count: 60},
	}}}}
}

// TestDebtsAreBounded checks that starved calls of more identities than there
// may be debts are refused.
func TestDebtsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, redis := openFake(t)
		defer s.Close()
		redis.becomes(store.Starved, false, 0)
		admitted := 0
		for i := range maxDebts + 100 {
			ok, a := s.take(t, fmt.Sprint("u", i), 5)
			if ok {
				admitted++
			} else if got := a.Sets[0]; got.Retry <= 0 || got.Retry > refusedFor || got.Limit != 5 || got.Remaining != 0 {
				t.Fatalf("a refusal reports %+v; want one for at most %d ms", got, refusedFor)
			}
		}
		if admitted != maxDebts {
			t.Errorf("%d calls were admitted; want %d", admitted, maxDebts)
		}
	})
}

// TestDebtThatNoPlanMayHaveIsDropped checks that an invalid debt, a fault of this program,
// is reported and keeps no other from being charged.
func TestDebtThatNoPlanMayHaveIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, redis := openFake(t)
		defer s.Close()
		var reported []string
		redis.becomes(store.Starved, false, 0)
		s.take(t, "u", 60)
		synctest.Wait() // it is charged; what comes now is charged a moment later
		s.take(t, "v", 60)
		s.onRescue = func(err error) { reported = append(reported, err.Error()) }
		s.take(t, "invalid", 60)
		s.debts.mu.Lock()
		for _, one := range s.debts.entries {
			if string(one.rule.Subject) == "invalid" {
				one.rule.Method = 7
			}
		}
		s.debts.mu.Unlock()
		time.Sleep(time.Minute)
		var a store.Answers
		if err := redis.Evaluate(context.Background(), peek("v"), &a); err != nil || a.Sets[0].Hits != 1 {
			t.Errorf("Redis has %d hits, %v; want the one that is owed", a.Sets[0].Hits, err)
		}
		if n := s.debts.size.Load(); n != 0 {
			t.Errorf("%d debts are left", n)
		}
		if want := []string{errFake.Error(), "a hit that was decided in process is not charged to Redis: plan: set 0, rule 0 (return 1): unknown method"}; !slices.Equal(reported, want) {
			t.Errorf("reported %q; want %q", reported, want)
		}
	})
}

// TestStrictRulesOweNothing checks that starved calls of rules that refuse in
// rescue are not charged.
func TestStrictRulesOweNothing(t *testing.T) {
	p := &store.Plan{Op: store.Take, Sets: []store.Set{{Rules: []store.Rule{{Weight: 1}}}}}
	if !borrows(p, store.Attempt{Health: store.Starved}) {
		t.Error("a plain rule borrows nothing")
	}
	for name, change := range map[string]func(*store.Plan, *store.Attempt){
		"strict":          func(p *store.Plan, _ *store.Attempt) { p.Sets[0].Rules[0].Strict = true },
		"an update":       func(p *store.Plan, _ *store.Attempt) { p.Op = store.Update },
		"its own clock":   func(p *store.Plan, _ *store.Attempt) { p.Now = 1 },
		"one node failed": func(_ *store.Plan, a *store.Attempt) { a.Health = store.Unknown },
	} {
		changed := store.Plan{Op: store.Take, Sets: []store.Set{{Rules: []store.Rule{{Weight: 1}}}}}
		attempt := store.Attempt{Health: store.Starved}
		change(&changed, &attempt)
		if borrows(&changed, attempt) {
			t.Errorf("%s: it borrows", name)
		}
	}
}
