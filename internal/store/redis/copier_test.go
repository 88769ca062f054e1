package redis_test

import (
	"context"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// space is a store with a space of its prefix.
type space struct {
	t           *testing.T
	store, copy *redis.Store
	copier      *redis.Copier
	client      *goredis.Client
	prefix      string
}

func openSpace(t *testing.T, server *storetest.Server, until time.Time) *space {
	t.Helper()
	s := &space{t: t, store: server.Open(t), client: server.Client()}
	t.Cleanup(func() { _ = s.client.Close() })
	s.prefix = s.store.Prefix()
	o := redis.Options{Prefix: s.prefix, Space: "trial7", Until: until, Budget: time.Minute}
	s.copy = server.Open(t, func(of *redis.Options) { of.Prefix, of.Space, of.Until, of.Linger = o.Prefix, o.Space, o.Until, 0 })
	s.copier = redis.NewCopier(s.client, &o)
	return s
}

// admitted returns how many takes of rules a store admits, up to 200.
func (s *space) admitted(of store.Store, rules ...store.Rule) (n int) {
	s.t.Helper()
	for ; n < 200; n++ {
		if !s.take(of, rules...) {
			break
		}
	}
	return n
}

func (s *space) take(of store.Store, rules ...store.Rule) (admitted bool) {
	s.t.Helper()
	var a store.Answers
	p := &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: rules}}}
	if err := of.Evaluate(s.t.Context(), p, &a); err != nil {
		s.t.Fatal(err)
	}
	return a.Sets[0].Decider < 0
}

// Counters of a space begin as copies, count alone, and expire with the space.
func TestCountersOfASpace(t *testing.T) {
	server := storetest.StartServer(t)
	for name, r := range map[string]store.Rule{
		"count":      {Method: store.Count, Time: 86_000, Count: 100},
		"a calendar": {Method: store.Count, Unit: store.Year, Count: 100},
		"base":       {Method: store.Base, Time: 86_000, Base: 30, Count: 70},
		"leak":       {Method: store.Leak, Time: 86_000, Count: 100},
		"token":      {Method: store.Token, Time: 864_000, Count: 1, Burst: 100},
		"a receipt":  {Method: store.Count, Time: 86_000, Count: 100, Settle: 86_000},
	} {
		t.Run(name, func(t *testing.T) {
			until := time.Now().Add(time.Hour)
			s := openSpace(t, server, until)
			r.Subject, r.Return, r.Weight = []byte("ann"), 7, 1
			if copied := s.copied(&r); copied[0] != (redis.Copied{}) {
				t.Error("copied a counter that does not exist")
			}
			for range 60 { // more runs than the value of a leak rule holds
				s.take(s.store, r)
				time.Sleep(time.Millisecond) // a run each
			}
			if copied := s.copied(&r); !copied[0].Now || copied[0].At.IsZero() {
				t.Fatal("not copied")
			}
			if here, there := s.admitted(s.copy, r), s.admitted(s.store, r); here != there || here < 30 || here > 70 {
				t.Errorf("the copy admits %d more, the original %d", here, there)
			}
			if copied := s.copied(&r); copied[0].Now {
				t.Error("copied over a counter")
			}
			s.checkExpiries(until)
		})
	}
}

func (s *space) copied(list ...*store.Rule) []redis.Copied {
	s.t.Helper()
	copied, err := s.copier.Copy(s.t.Context(), list)
	if err != nil {
		s.t.Fatal(err)
	}
	return copied
}

// checkExpiries fails the test for each key of the space that outlives it, and for a space
// without keys.
func (s *space) checkExpiries(until time.Time) {
	s.t.Helper()
	keys, err := s.client.Keys(context.Background(), s.prefix+":trial7:*").Result()
	if err != nil || len(keys) == 0 {
		s.t.Fatal("no keys", err)
	}
	for _, key := range keys {
		if left := s.client.PTTL(context.Background(), key).Val(); left < 0 || time.Now().Add(left).After(until.Add(time.Second)) {
			s.t.Errorf("%q expires in %v, after %v", key, left, time.Until(until))
		}
	}
}

// The keys of a space are those of the prefix for a user with the rights to it, and each
// subject keeps its slot.
func TestKeysOfASpace(t *testing.T) {
	server := storetest.StartServer(t)
	s := openSpace(t, server, time.Now().Add(time.Minute))
	s.take(s.copy, store.Rule{Subject: []byte("ann"), Return: 7, Method: store.Count, Weight: 1, Time: 60, Count: 2})
	keys := s.client.Keys(t.Context(), s.prefix+":*").Val()
	if want := s.prefix + ":trial7:2:{ann}"; len(keys) != 1 || keys[0] != want {
		t.Errorf("keys %q, want %q", keys, want)
	}
	if err := s.copy.Clear(t.Context()); err != nil || s.client.Exists(t.Context(), keys...).Val() != 0 {
		t.Error("not removed", err)
	}
}

// Another instance learns when a copy was made.
func TestInstantOfACopy(t *testing.T) {
	s := openSpace(t, storetest.StartServer(t), time.Time{})
	r := store.Rule{Subject: []byte("ann"), Return: 7, Method: store.Count, Weight: 1, Time: 60, Count: 2}
	s.take(s.store, r)
	before := time.Now()
	s.copied(&r)
	after := time.Now()
	asked := time.Now()
	other := s.copied(&r)[0]
	earliest := before.Add(-time.Since(asked) - 2*time.Millisecond) // the clock of Redis has milliseconds
	if other.Now || other.At.Before(earliest) || other.At.After(after.Add(2*time.Millisecond)) {
		t.Errorf("copied at %v, want %v … %v", other, earliest, after)
	}
}

func TestLinksOfReceipts(t *testing.T) {
	server := storetest.StartServer(t)
	s := openSpace(t, server, time.Time{})
	inForce, own := store.NewReceipt(store.KeptInRedis), store.NewReceipt(store.KeptInRedis)
	if got, err := s.copier.Linked(t.Context(), inForce); got != "" || err != nil {
		t.Error(got, err)
	}
	if err := s.copier.Link(t.Context(), inForce, own, time.Minute); err != nil {
		t.Fatal(err)
	}
	if got, err := s.copier.Linked(t.Context(), inForce); got != own || err != nil {
		t.Error(got, err)
	}
	key := s.client.Keys(t.Context(), s.prefix+"*").Val()[0]
	for name, c := range junk {
		s.client.Del(t.Context(), key)
		c.put(t.Context(), s.client, key, own)
		s.client.Expire(t.Context(), key, time.Minute)
		if got, err := s.copier.Linked(t.Context(), inForce); got != "" || err != nil {
			t.Errorf("%s: %.40q, %v; want no receipt", name, got, err)
		}
	}
}
