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

// TestDamageIsReportedAndReplaced puts an invalid value into a counter's key. The
// counter counts as absent: the first take is admitted, and the limit holds from
// then on. The key is reported once, and expires.
func TestDamageIsReportedAndReplaced(t *testing.T) {
	server := storetest.StartServer(t)
	const far = "\xff\xff\xff\xff\xff\xff" // the last instant of six bytes
	type damage func(t *testing.T, c *goredis.Client, key, good string)
	set := func(change func(good string) string) damage {
		return func(t *testing.T, c *goredis.Client, key, good string) {
			if changed := change(good); changed == good {
				t.Fatalf("%q is unchanged", good)
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
		"truncated":                    {store.Base, set(func(good string) string { return good[:len(good)-1] })},
		"a later layout":               {store.Leak, replace(0, "\x03")},
		"a body that is too short":     {store.Count, set(func(good string) string { return good[:body-1] + "\x06" + good[body:len(good)-1] })},
		"a window that never closes":   {store.Count, replace(end, far)},
		"a day that never ends":        {store.Base, replace(body+7, far)},
		"hits that never leave":        {store.Leak, replace(end, far)},
		"a bucket used in the future":  {store.Token, replace(body+14, far)},
		"a bucket of a rule of 0 time": {store.Token, replace(body+20, "\x00\x00\x00\x00\x00")},
		"a missing log":                {store.Leak, replace(body+11, "\x00\x00\x00\x09")},
	} {
		t.Run(name, func(t *testing.T) {
			var reported []string
			prefix := strings.ReplaceAll(name, " ", "-")
			r, err := redis.Open(redis.Options{URL: server.URL(), Prefix: prefix, Budget: time.Minute, Refusals: -1, OnDamage: func(key string) { reported = append(reported, key) }})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			client := server.Client()
			defer client.Close()
			s := &rig{Store: r, t: t, client: client, key: redis.Key(prefix, "u")}
			rule := rules()[slices.IndexFunc(rules(), func(r store.Rule) bool { return r.Method == c.method })]
			rule.Count, rule.Burst, rule.Base = 2, 2, 1
			s.do(store.Update, now, weighs(rule, 2))
			if a := s.do(store.Take, now, rule); a.Decider < 0 || len(reported) > 0 {
				t.Fatalf("before: %+v, reported %q", a, reported)
			}
			c.do(t, client, s.key, s.value())

			if a := s.do(store.Take, now+1, rule); a.Decider >= 0 {
				t.Errorf("refused by an invalid value: %+v", a)
			}
			if !slices.Equal(reported, []string{s.key}) {
				t.Errorf("reported %q, want %s once", reported, s.key)
			}
			s.do(store.Take, now+1, rule)
			if a := s.do(store.Take, now+1, rule); a.Decider < 0 || len(reported) != 1 {
				t.Errorf("the limit of 2 does not hold afterwards: %+v, reported %q", a, reported)
			}
			server.CheckExpiries(t, prefix)
		})
	}
}

// TestVersionsCountSideBySide counts in a Redis that a later version uses too, with
// keys of another layout and with an unknown method. Neither version loses what the
// other has counted.
func TestVersionsCountSideBySide(t *testing.T) {
	s := openRig(t, storetest.StartServer(t))
	ctx := context.Background()
	next := strings.Replace(s.key, ":2:", ":3:", 1)
	if err := s.client.RPush(ctx, next, "anything").Err(); err != nil {
		t.Fatal(err)
	}
	s.client.Expire(ctx, next, time.Hour)
	s.do(store.Take, now, rules()...)
	s.do(store.Reset, now+1, rules()...)
	if kind := s.client.Type(ctx, next).Val(); kind != "list" {
		t.Errorf("the key of the other layout is now a %s", kind)
	}

	// An older and a newer generation of rules: counters that only one of them
	// has stay when the other writes.
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

// TestPanicInOnDamageFailsNoCall checks that the calls of a batch are answered
// although OnDamage panics.
func TestPanicInOnDamageFailsNoCall(t *testing.T) {
	reported := 0
	s := openRig(t, storetest.StartServer(t), func(o *redis.Options) {
		o.OnDamage = func(string) { reported++; panic("damage") }
	})
	s.put("garbage")
	plans, got := []*store.Plan{oneCount("u", 5), oneCount("other", 5)}, make([]store.Answers, 2)
	if err := s.EvaluateTogether(plans, got); err != nil {
		t.Fatal(err)
	}
	if reported != 1 || got[0].Sets[0].Remaining != 4 || got[1].Sets[0].Remaining != 4 {
		t.Errorf("reported %d times, answers %+v; want once, and both counted", reported, got)
	}
}
