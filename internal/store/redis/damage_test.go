package redis_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// TestDamageIsToldOfAndHealed puts into a counter's key what is no counter. It
// is taken for absent: the first take is admitted and the limit holds from
// there on, the key is told of once, and it expires.
func TestDamageIsToldOfAndHealed(t *testing.T) {
	server := storetest.StartServer(t)
	const far = "\xff\xff\xff\xff\xff\xff" // the last instant of six bytes
	type damage func(t *testing.T, c *goredis.Client, key, good string)
	set := func(change func(good string) string) damage {
		return func(t *testing.T, c *goredis.Client, key, good string) {
			if changed := change(good); changed == good {
				t.Fatalf("%q stays as it is", good)
			} else if err := c.Set(context.Background(), key, changed, time.Minute).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The value has 7 bytes, an entry 5 for its tag, 6 for its end and 2 for the
	// length of its body.
	const end, body = 7 + 5, 7 + 5 + 6 + 2
	replace := func(at int, text string) damage {
		return set(func(good string) string { return good[:at] + text + good[at+len(text):] })
	}
	for name, c := range map[string]struct {
		method store.Method
		do     damage
	}{
		"a list": {store.Count, func(_ *testing.T, c *goredis.Client, key, _ string) {
			c.Del(context.Background(), key)
			c.LPush(context.Background(), key, "x")
		}},
		"nothing":                      {store.Count, set(func(string) string { return "" })},
		"garbage":                      {store.Token, set(func(string) string { return "garbage garbage" })},
		"cut off":                      {store.Base, set(func(good string) string { return good[:len(good)-1] })},
		"a layout to come":             {store.Leak, replace(0, "\x02")},
		"a body that is too short":     {store.Count, set(func(good string) string { return good[:body-1] + "\x06" + good[body:len(good)-1] })},
		"a window that never closes":   {store.Count, replace(end, far)},
		"a day that never ends":        {store.Base, replace(body+7, far)},
		"hits that never leave":        {store.Leak, replace(end, far)},
		"a bucket used in the future":  {store.Token, replace(body+7, far)},
		"a bucket of a rule of 0 time": {store.Token, replace(body+13, "\x00\x00\x00\x00\x00")},
		"a log that is not there":      {store.Leak, replace(body+11, "\x00\x00\x00\x09")},
	} {
		t.Run(name, func(t *testing.T) {
			var told []string
			prefix := strings.ReplaceAll(name, " ", "-")
			r, err := redis.Open(redis.Options{URL: server.URL(), Prefix: prefix, Budget: time.Minute, Refusals: -1, OnDamage: func(key string) { told = append(told, key) }})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			client := server.Client()
			defer client.Close()
			s := &shelf{Store: r, t: t, client: client, key: redis.Key(prefix, "u")}
			rule := rules()[slices.IndexFunc(rules(), func(r store.Rule) bool { return r.Method == c.method })]
			rule.Count, rule.Burst, rule.Base = 2, 2, 1
			s.do(store.Update, now, weighs(rule, 2))
			if a := s.do(store.Take, now, rule); a.Decider < 0 || len(told) > 0 {
				t.Fatalf("before: %+v, told of %q", a, told)
			}
			c.do(t, client, s.key, s.value())

			if a := s.do(store.Take, now+1, rule); a.Decider >= 0 {
				t.Errorf("refused by what is no counter: %+v", a)
			}
			if !slices.Equal(told, []string{s.key}) {
				t.Errorf("told of %q, want once of %s", told, s.key)
			}
			s.do(store.Take, now+1, rule)
			if a := s.do(store.Take, now+1, rule); a.Decider < 0 || len(told) != 1 {
				t.Errorf("the limit of 2 does not hold afterwards: %+v, told of %q", a, told)
			}
			server.CheckExpiries(t, prefix)
		})
	}
}

// TestVersionsSideBySide has a version to come count in the same Redis: in keys
// of its own layout, and with a method that this one does not know. Neither
// loses what the other has counted.
func TestVersionsSideBySide(t *testing.T) {
	s := openShelf(t, storetest.StartServer(t))
	ctx := context.Background()
	next := strings.Replace(s.key, ":1:", ":2:", 1)
	if err := s.client.RPush(ctx, next, "anything").Err(); err != nil {
		t.Fatal(err)
	}
	s.client.Expire(ctx, next, time.Hour)
	s.do(store.Take, now, rules()...)
	s.do(store.Reset, now+1, rules()...)
	if kind := s.client.Type(ctx, next).Val(); kind != "list" {
		t.Errorf("the other layout's key is a %s now", kind)
	}

	// An older and a newer generation of rules: what only one of them knows
	// stays, whoever writes.
	older, newer := rules()[:2], rules()[2:]
	for i := range int64(4) {
		s.do(store.Take, now+i, older...)
		s.do(store.Take, now+i, newer...)
	}
	for _, r := range rules() {
		if a := s.do(store.Peek, now+4, r); a.Hits != 4 {
			t.Errorf("method %d: %d hits are counted, want 4", r.Method, a.Hits)
		}
	}
}

// TestAPanicThatIsToldOfDamageHarmsNoCall has whoever is told of damage panic:
// the call is many callers', and is answered.
func TestAPanicThatIsToldOfDamageHarmsNoCall(t *testing.T) {
	told := 0
	s := openShelf(t, storetest.StartServer(t), func(o *redis.Options) {
		o.OnDamage = func(string) { told++; panic("told of damage") }
	})
	s.put("garbage")
	plans, got := []*store.Plan{oneCount("u", 5), oneCount("other", 5)}, make([]store.Answers, 2)
	if err := s.EvaluateTogether(plans, got); err != nil {
		t.Fatal(err)
	}
	if told != 1 || got[0].Sets[0].Remaining != 4 || got[1].Sets[0].Remaining != 4 {
		t.Errorf("told %d times, answers %+v; want once, and both counted", told, got)
	}
}
