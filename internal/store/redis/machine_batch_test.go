package redis_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/store/storetest/machine"
)

// TestBatchesAnswerAsTheModel carries out many plans together, and in the model one
// by one. They share few counters: each must see the hits of the admitted plans
// before it, and nothing of the refused ones.
func TestBatchesAnswerAsTheModel(t *testing.T) {
	server := storetest.StartServer(t)
	zones := machine.Zones(t, "Asia/Shanghai", "America/New_York")
	n := 0
	storetest.InWays(t, storetest.Ways(*long), func(t *testing.T, way storetest.Way) {
		dialogues(t, 30, way.Of(10_000))
		for name, next := range map[string]func(*rapid.T, int64, *time.Location) *store.Plan{"anything": machine.Plan, "counts": countPlan} {
			t.Run(name, func(t *testing.T) {
				rapid.Check(t, func(rt *rapid.T) {
					n++
					o := redis.Options{URL: server.URL(), Prefix: fmt.Sprintf("g%d", n), Budget: time.Minute, Linger: time.Hour}
					way.Set(&o)
					r, err := redis.Open(o)
					if err != nil {
						rt.Fatal(err)
					}
					defer r.Close()
					defer func() {
						server.CheckExpiries(t, o.Prefix)
						if err := r.Clear(context.Background()); err != nil {
							t.Error(err)
						}
					}()
					converse(rt, r, zones, next)
				})
			})
		}
	})
}

// converse sends random batches to the store and to the model, and compares the
// answers.
func converse(rt *rapid.T, r *redis.Store, zones []*time.Location, next func(*rapid.T, int64, *time.Location) *store.Plan) {
	model := machine.NewModel()
	now := int64(1_793_505_600_000) + rapid.Int64Range(-90_000_000, 90_000_000).Draw(rt, "begin")
	for i := range rapid.IntRange(1, 6).Draw(rt, "steps") {
		now += machine.Move.Draw(rt, "move")
		var plans []*store.Plan
		for range rapid.IntRange(1, 12).Draw(rt, "calls") {
			zone := rapid.SampledFrom(zones).Draw(rt, "zone")
			plans = append(plans, next(rt, now, zone))
		}
		got := make([]store.Answers, len(plans))
		if err := r.EvaluateTogether(plans, got); err != nil {
			rt.Fatalf("step %d: %v", i, err)
		}
		for k, p := range plans {
			if want := model.Evaluate(p); !machine.Alike(want, got[k].Sets) {
				rt.Fatalf("step %d, call %d of %d: %s: the store differs from the model (-model +store):\n%s", i, k+1, len(plans), machine.Describe(p), cmp.Diff(want, machine.Normalize(&got[k]).Sets))
			}
		}
	}
}

// countPlan returns a take on count rules of different subjects. Some plans use a
// second return, whose counter joins the first in the value of the subject.
func countPlan(rt *rapid.T, now int64, zone *time.Location) *store.Plan {
	p := &store.Plan{Op: store.Take, Now: now, Zone: zone}
	other := rapid.IntRange(0, 40).Draw(rt, "other") == 0
	for range rapid.SampledFrom([]int{1, 1, 1, 2, 4}).Draw(rt, "sets") {
		set := store.Set{Allows: rapid.IntRange(0, 9).Draw(rt, "allows") > 0}
		for range rapid.SampledFrom([]int{1, 1, 1, 2, 0}).Draw(rt, "rules") {
			r := machine.Rule(rt)
			r.Method, r.Unit, r.From, r.Time = store.Count, 0, 0, rapid.SampledFrom([]int64{1, 60, store.Day}).Draw(rt, "time")
			r.Subject, r.Return = []byte{byte(rapid.IntRange(0, 5).Draw(rt, "subject"))}, 1
			if other {
				r.Return = 2
			}
			set.Rules = append(set.Rules, r)
		}
		p.Sets = append(p.Sets, set)
	}
	return machine.Unify(p)
}

// TestDamagedValueAffectsNoOtherCall mixes damaged and valid values in one script
// call.
func TestDamagedValueAffectsNoOtherCall(t *testing.T) {
	s := openRig(t, storetest.StartServer(t))
	ctx := context.Background()
	all := rules()
	var plans []*store.Plan
	for i := range 12 {
		r := all[i%4]
		r.Subject = fmt.Appendf(nil, "u%d", i)
		plans = append(plans, &store.Plan{Op: store.Take, Now: now, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{r}}}})
	}
	for round := range int64(3) {
		for i, do := range []func(key string) error{
			func(key string) error { return s.client.Set(ctx, key, "garbage", time.Minute).Err() },
			func(key string) error { s.client.Del(ctx, key); return s.client.LPush(ctx, key, "x").Err() },
			func(key string) error { return s.client.Set(ctx, key, "\x01garbage garbage", time.Minute).Err() },
		} {
			if err := do(redis.Key(s.Prefix(), fmt.Sprintf("u%d", i*5))); err != nil {
				t.Fatal(err)
			}
		}
		got := make([]store.Answers, len(plans))
		if err := s.EvaluateTogether(plans, got); err != nil {
			t.Fatal(err)
		}
		for i := range plans {
			left := 4 - round
			if i%5 == 0 && i <= 10 {
				left = 4
			}
			if i%4 == 1 { // base: one hit is free, and counts in the second window too
				left = got[i].Sets[0].Remaining
			}
			if a := got[i].Sets[0]; a.Decider >= 0 || a.Remaining != left {
				t.Errorf("round %d, call %d: %+v, want %d left", round, i, a, left)
			}
		}
	}
}
