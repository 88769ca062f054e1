package rescue

import (
	"context"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
)

// Shares come from Redis; a failed call assigns nothing, so that the holder keeps its share.
// While Redis is unreachable they come from the in-process store, without lenient rules, and
// not at all for strict ones.
func TestSharesInRescue(t *testing.T) {
	s, redis := openFake(t)
	defer s.Close()
	rule := store.Rule{Subject: []byte("a"), Return: 1, Method: store.Token, Time: 1, Count: 100, Burst: 200, Lease: 200}
	assign := func(change func(*store.Rule)) (store.Assignment, error) {
		t.Helper()
		rules := []store.Rule{rule, rule}
		rules[0].Return, rules[0].Lenient = 2, true
		change(&rules[1])
		return s.Assign(context.Background(), &store.Usage{Zone: time.UTC, Rules: rules, Holder: "envoy", Reported: true, Lasts: 7000})
	}
	same := func(*store.Rule) {}
	if a, err := assign(same); err != nil || !a.Send || a.Degraded {
		t.Errorf("with Redis: %+v, %v", a, err)
	}
	redis.mu.Lock()
	redis.health = store.Unknown
	redis.mu.Unlock()
	if a, err := assign(same); err == nil {
		t.Errorf("after a failed call: %+v, want an error", a)
	}
	redis.mu.Lock()
	redis.health = store.Unreachable
	redis.mu.Unlock()
	s.stage = func() <-chan time.Time { return nil }
	if _, err := assign(same); err == nil {
		t.Error("the call that finds Redis unreachable succeeds")
	}
	if a, err := assign(same); err != nil || !a.Send || !a.Degraded || a.Holders != 1 {
		t.Errorf("without Redis: %+v, %v", a, err)
	}
	if a, err := assign(func(r *store.Rule) { r.Strict = true }); err != nil || a.Send || a.Reason != store.StrictRefuses || a.Rule != 1 {
		t.Errorf("without Redis, by a strict rule: %+v, %v", a, err)
	}
	if a, err := assign(func(r *store.Rule) { r.Lenient = true }); err != nil || a.Send || a.Reason != store.LenientPasses {
		t.Errorf("without Redis, by lenient rules: %+v, %v", a, err)
	}
}
