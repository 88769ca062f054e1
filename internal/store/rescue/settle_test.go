package rescue

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/memory"
)

// settlingRedis is a store whose receipts are those of Redis.
type settlingRedis struct {
	*fakeRedis
	away     atomic.Bool
	poisoned string // a receipt that it refuses
}

func (r *settlingRedis) Try(ctx context.Context, p *store.Plan, a *store.Answers) (store.Attempt, error) {
	attempt, err := r.fakeRedis.Try(ctx, p, a)
	if a.Receipt != "" {
		a.Receipt = "r" + a.Receipt[1:]
	}
	return attempt, err
}

func (r *settlingRedis) Settle(ctx context.Context, t *store.Settlement) (store.Settled, error) {
	if r.away.Load() || t.Receipt == r.poisoned {
		return store.Settled{}, errFake
	}
	one := *t
	one.Receipt = "p" + t.Receipt[1:]
	return r.fakeRedis.Settle(ctx, &one)
}

func (r *settlingRedis) Renew(ctx context.Context, t *store.Renewal) (store.Settled, error) {
	return r.fakeRedis.Renew(ctx, &store.Renewal{Receipt: "p" + t.Receipt[1:], Now: t.Now})
}

// TestRefusedSettlementsAreGivenUp settles a receipt that Redis refuses alone: it is tried for a
// minute, beside others, and then given up.
func TestRefusedSettlementsAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := &settlingRedis{fakeRedis: &fakeRedis{Store: memory.New(memory.Options{}), health: store.Answered}, poisoned: "r-poisoned"}
		reasons := make(chan error, 2)
		s := New(redis, memory.New(memory.Options{}), Options{OnGiveUp: func(err error) { reasons <- err }})
		defer s.Close()
		settle := func(receipt string) {
			t.Helper()
			if got, err := s.Settle(context.Background(), &store.Settlement{Receipt: receipt, Zone: time.UTC, Judge: new(endJudge)}); err != nil || !got.Deferred {
				t.Errorf("%s: %+v, %v; want it deferred", receipt, got, err)
			}
		}
		redis.away.Store(true)
		settle("r-other")
		redis.away.Store(false)
		settle("r-poisoned")
		time.Sleep(time.Second)
		synctest.Wait()
		if n := s.Settlements(); n != 1 {
			t.Errorf("%d settlements wait after a second; want the refused one", n)
		}
		time.Sleep(50 * time.Second)
		synctest.Wait()
		if n := s.Settlements(); n != 1 || len(reasons) > 0 {
			t.Errorf("%d settlements wait after 51 s, %d given up; want one, and none", n, len(reasons))
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if n := s.Settlements(); n != 0 || len(reasons) != 1 {
			t.Fatalf("%d settlements wait after 71 s, %d given up; want none, and one", n, len(reasons))
		}
		if err := <-reasons; !errors.Is(err, errFake) {
			t.Errorf("the settlement was given up for %v; want %v", err, errFake)
		}
	})
}

// endJudge ends holds. It refers to memory of its caller.
type endJudge struct{ overwritten bool }

func (j *endJudge) Judge(int64, store.Method) store.Use { return store.Use{Concerns: !j.overwritten} }

func (j *endJudge) Keep() store.Judge { return &endJudge{j.overwritten} }

// TestSettlementsWaitForRedis settles while Redis is away: as many settlements as there
// is room for are carried out when it is back, with what their callers said.
func TestSettlementsWaitForRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := &settlingRedis{fakeRedis: &fakeRedis{Store: memory.New(memory.Options{}), health: store.Answered}}
		dropped := 0
		s := New(redis, memory.New(memory.Options{}), Options{MaxSettlements: 2, OnDrop: func() { dropped++ }})
		defer s.Close()
		p := &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{
			{Subject: []byte("u"), Return: 1, Method: store.Hold, Time: 600, Count: 4, Weight: 1},
		}}}}
		var receipts []string
		take := func() (a store.Answers) {
			t.Helper()
			if err := s.Evaluate(context.Background(), p, &a); err != nil {
				t.Fatal(err)
			}
			return a
		}
		for range 4 {
			receipts = append(receipts, take().Receipt)
		}
		settle := func(receipt string) (store.Settled, error) {
			j := new(endJudge)
			defer func() { j.overwritten = true }()
			return s.Settle(context.Background(), &store.Settlement{Receipt: receipt, Zone: time.UTC, Judge: j})
		}
		if got, err := settle(receipts[0]); err != nil || !got.Known {
			t.Errorf("with Redis: %+v, %v", got, err)
		}
		redis.away.Store(true)
		for _, r := range receipts[1:3] {
			if got, err := settle(r); err != nil || !got.Deferred || got.Known {
				t.Errorf("without Redis: %+v, %v", got, err)
			}
		}
		if _, err := settle(receipts[3]); !errors.Is(err, ErrSettlementDropped) || dropped != 1 {
			t.Errorf("beyond the bound: %v, %d dropped", err, dropped)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := s.Settlements(); n != 2 {
			t.Errorf("%d settlements wait, want 2", n)
		}
		redis.away.Store(false)
		time.Sleep(2 * settleEvery)
		synctest.Wait()
		if n := s.Settlements(); n != 0 {
			t.Errorf("%d settlements wait after Redis is back", n)
		}
		if a := take(); a.Sets[0].Remaining != 2 {
			t.Errorf("%d are free, want 2: one of 4 holds was not settled, and one is new", a.Sets[0].Remaining)
		}
	})
}

// TestReceiptsAreSettledWhereTheyAreKept settles and renews receipts of a take in rescue.
func TestReceiptsAreSettledWhereTheyAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := &settlingRedis{fakeRedis: &fakeRedis{Store: memory.New(memory.Options{}), health: store.Answered}}
		s := New(redis, memory.New(memory.Options{}), Options{})
		defer s.Close()
		p := &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{
			{Subject: []byte("u"), Return: 1, Method: store.Hold, Time: 600, Count: 1, Weight: 1},
		}}}}
		var shared, local store.Answers
		if err := s.Evaluate(context.Background(), p, &shared); err != nil {
			t.Fatal(err)
		}
		redis.becomes(store.Unreachable, false, 0)
		redis.away.Store(true)
		s.suspend(errFake)
		p.Sets[0].Rules[0].Subject = []byte("v")
		if err := s.Evaluate(context.Background(), p, &local); err != nil || !local.Degraded || local.Receipt == "" {
			t.Fatalf("%v, %+v", err, local)
		}
		if _, err := s.Renew(context.Background(), &store.Renewal{Receipt: shared.Receipt}); err == nil {
			t.Error("a receipt of Redis is renewed without Redis")
		}
		for _, known := range []bool{true, false} {
			if got, err := s.Renew(context.Background(), &store.Renewal{Receipt: local.Receipt}); err != nil || got.Known != known {
				t.Errorf("renewed in process: %+v, %v; want %v", got, err, known)
			}
			got, err := s.Settle(context.Background(), &store.Settlement{Receipt: local.Receipt, Zone: time.UTC, Judge: new(endJudge)})
			if err != nil || got.Known != known {
				t.Errorf("settled in process: %+v, %v; want %v", got, err, known)
			}
		}
	})
}
