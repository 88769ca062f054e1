package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/koalagate/koalagate/store"
	"github.com/koalagate/koalagate/store/storetest"
)

// TestStoresAnswerAlike puts the same plans to the in-process store and to
// Redis and compares every answer. Few subjects, rules and instants make them
// meet often; thresholds change as reloads change them.
func TestStoresAnswerAlike(t *testing.T) {
	server := storetest.StartServer(t)
	redis, client := server.Open(t), server.Client()
	defer client.Close()
	zones := zones(t, "Asia/Shanghai", "America/New_York", "America/Havana", "Australia/Lord_Howe", "UTC")
	dialogue := func(rt *rapid.T) {
		memory := store.NewMemory(store.MemoryOptions{})
		defer memory.Close()
		if err := client.FlushDB(context.Background()).Err(); err != nil {
			rt.Fatal(err)
		}
		now := int64(1_793_505_600_000) + rapid.Int64Range(-90_000_000, 90_000_000).Draw(rt, "begin")
		begin := time.Now()
		for i := range rapid.IntRange(1, 60).Draw(rt, "steps") {
			if time.Since(begin) > patience {
				return
			}
			now += rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 50), rapid.Int64Range(0, 5000),
				rapid.Int64Range(-4000, 0), rapid.Int64Range(0, 40_000_000), rapid.Int64Range(-3_000_000, 0)).Draw(rt, "move")
			p := plan(rt, now, zones[rapid.IntRange(0, len(zones)-1).Draw(rt, "zone")])
			var want, got store.Answers
			if err := memory.Evaluate(context.Background(), p, &want); err != nil {
				rt.Fatalf("memory, step %d: %v", i, err)
			}
			if err := redis.Evaluate(context.Background(), p, &got); err != nil {
				rt.Fatalf("redis, step %d: %v", i, err)
			}
			if diff := cmp.Diff(settle(&want), settle(&got)); diff != "" {
				rt.Fatalf("step %d: %s: redis differs from memory (-memory +redis):\n%s", i, describe(p), diff)
			}
		}
		server.CheckExpiries(t, redis.Prefix())
	}
	for range rounds {
		rapid.Check(t, dialogue)
	}
}

// rounds multiplies rapid's 100 dialogues: a difference that showed once showed
// in one of 3000.
const rounds = 15

// patience is how long a dialogue may last. The plans bring their own clock,
// but Redis drops keys by its own: on a machine that is busy, a second after
// the end of what they hold.
const patience = 500 * time.Millisecond

// settle makes an empty list of refusals and none the same.
func settle(a *store.Answers) *store.Answers {
	for i := range a.Sets {
		if len(a.Sets[i].Refusals) == 0 {
			a.Sets[i].Refusals = nil
		}
	}
	return a
}

func zones(t *testing.T, names ...string) []*time.Location {
	var zones []*time.Location
	for _, name := range names {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		zones = append(zones, zone)
	}
	return zones
}

func plan(rt *rapid.T, now int64, zone *time.Location) *store.Plan {
	p := &store.Plan{
		Op:   rapid.SampledFrom([]store.Op{store.Take, store.Take, store.Take, store.Browse, store.Update, store.Refund, store.Complete, store.CompleteTake, store.Peek, store.Reset}).Draw(rt, "op"),
		Now:  now,
		Zone: zone,
	}
	for range rapid.IntRange(1, 4).Draw(rt, "sets") {
		set := store.Set{
			Allows: rapid.IntRange(0, 9).Draw(rt, "allows") > 0,
			Refund: p.Op == store.Take && rapid.IntRange(0, 7).Draw(rt, "refund") == 0,
		}
		for range rapid.IntRange(0, 4).Draw(rt, "rules") {
			set.Rules = append(set.Rules, rule(rt))
		}
		p.Sets = append(p.Sets, set)
	}
	return p
}

func rule(rt *rapid.T) store.Rule {
	r := store.Rule{
		Subject: []byte{byte(rapid.IntRange(0, 2).Draw(rt, "subject"))},
		Return:  int64(rapid.IntRange(1, 3).Draw(rt, "return")),
		Weight:  rapid.OneOf(rapid.Just(int64(1)), rapid.Int64Range(0, 9), rapid.Just(int64(store.MaxWeight))).Draw(rt, "weight"),
		Method:  rapid.SampledFrom([]store.Method{store.Count, store.Base, store.Leak, store.Leak, store.Token}).Draw(rt, "method"),
		Time:    rapid.SampledFrom([]int64{1, 2, 60, 7200, store.Day}).Draw(rt, "time"),
		Count:   rapid.SampledFrom([]int64{1, 2, 3, 5, 20, 1000}).Draw(rt, "count"),
		Shadow:  rapid.IntRange(0, 5).Draw(rt, "shadow") == 0,
		Allows:  rapid.IntRange(0, 5).Draw(rt, "answer") == 0,
	}
	switch r.Method {
	case store.Base:
		r.Base = rapid.SampledFrom([]int64{1, 2, 5}).Draw(rt, "base")
	case store.Token:
		r.Burst = rapid.SampledFrom([]int64{1, 2, 7, 1000}).Draw(rt, "burst")
	}
	return r
}

func describe(p *store.Plan) string { return fmt.Sprintf("%+v", *p) }
