package redis_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// now is an instant of the tests, 12:00 in UTC.
const now = 1_780_315_200_000

// rig is a Redis store with a client for direct access to its keys.
type rig struct {
	*redis.Store
	t      *testing.T
	client *goredis.Client
	key    string // of the subject u
}

func openRig(t *testing.T, server *storetest.Server, change ...func(*redis.Options)) *rig {
	t.Helper()
	usual := func(o *redis.Options) { o.Linger = 0 } // because it is part of the layout
	r := server.Open(t, append([]func(*redis.Options){usual}, change...)...)
	s := &rig{Store: r, t: t, client: server.Client(), key: redis.Key(r.Prefix(), "u")}
	t.Cleanup(func() { s.client.Close() })
	return s
}

// do carries out an operation on one set of rules, by the clock at.
func (s *rig) do(op store.Op, at int64, rules ...store.Rule) store.Answer {
	s.t.Helper()
	var a store.Answers
	p := &store.Plan{Op: op, Now: at, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: rules}}}
	if err := s.Evaluate(context.Background(), p, &a); err != nil {
		s.t.Fatal(err)
	}
	return a.Sets[0]
}

func (s *rig) value() string {
	s.t.Helper()
	value, err := s.client.Get(context.Background(), s.key).Result()
	if err != nil {
		s.t.Fatal(err)
	}
	return value
}

func (s *rig) put(value string) {
	s.t.Helper()
	if err := s.client.Set(context.Background(), s.key, value, time.Minute).Err(); err != nil {
		s.t.Fatal(err)
	}
}

// rules returns one rule of each method, with the returns 1 to 4.
func rules() []store.Rule {
	u := []byte("u")
	return []store.Rule{
		{Subject: u, Return: 1, Method: store.Count, Weight: 1, Time: 60, Count: 5},
		{Subject: u, Return: 2, Method: store.Base, Weight: 1, Time: 60, Count: 5, Base: 1},
		{Subject: u, Return: 3, Method: store.Leak, Weight: 1, Time: 60, Count: 5},
		{Subject: u, Return: 4, Method: store.Token, Weight: 1, Time: 60, Count: 5, Burst: 5},
	}
}

// TestLayout compares the bytes in Redis, which later versions of the program may read
// at the same time.
func TestLayout(t *testing.T) {
	s := openRig(t, storetest.StartServer(t))
	s.do(store.Take, now, rules()...)
	instant := func(ms int64) string { return fmt.Sprintf("%012x", ms) }
	const midnight = now + 12*3_600_000
	want := strings.Join([]string{
		// The layout; the instant at which Redis expires the key: the last end of
		// an entry plus a quarter and a second.
		"02", instant(now + 15*3_600_000 + 1000),
		// Each entry: return × 8 + method, its end, the length of its body.
		"0000000009", instant(now + 60_000), "0007", "00000000000001", // hits; the window ends with the entry
		"0000000012", instant(midnight), "001a",
		"00000000000001", instant(midnight), // today's hits and end
		"00000000000001", instant(now + 60_000), // the second window's
		"000000001b", instant(now + 60_000), "002a",
		"00000000000000", "00000000", "00000000", instant(0), "00000000", "00000000", // hits before the oldest run; no log
		instant(now), "00000000000001", // one run
		// One token of a burst of five is missing, and nothing is below empty.
		"0000000024", instant(now + 12_000), "0020", "0000000000ea60", "00000000000000", instant(now), "000000ea60", "00000000000005",
	}, "")
	if got := hex.EncodeToString([]byte(s.value())); got != want {
		t.Errorf("the value is\n%s, want\n%s", got, want)
	}
}

func TestKeys(t *testing.T) {
	for subject, want := range map[string]string{
		"":                         "p:2:{#}",
		"\x01\x03ask":              "p:2:{%01%03ask}",
		"u@h/a-b_c.d:1,2=3+":       "p:2:{u@h/a-b_c.d:1,2=3+}",
		"#{ }%~é":                  "p:2:{%23%7B%20%7D%25%7E%C3%A9}",
		strings.Repeat("x", 128):   "p:2:{" + strings.Repeat("x", 128) + "}",
		strings.Repeat("x", 129):   "p:2:{#0ec9eb33e74510bcdd1f2ea55206e82f}",
		strings.Repeat("\x00", 43): "p:2:{#859732b97382a08583d6a67f58424865}",
	} {
		if got := redis.Key("p", subject); got != want {
			t.Errorf("the key of %q is %s, want %s", subject, got, want)
		}
	}
}

// TestNoKeyIsTooLong uses the prefixes and identities with the longest keys, and
// the rule with the highest return, whose log has the longest key.
func TestNoKeyIsTooLong(t *testing.T) {
	for _, length := range []int{1, 53, 54, 55, redis.MaxPrefix} {
		prefix := strings.Repeat("p", length)
		known := make(map[string]int)
		for n := range 200 {
			subject := strings.Repeat("x", n)
			for _, key := range []string{redis.Key(prefix, subject), redis.FixedKey(prefix, subject)} {
				if size := len(key + ":17179869183"); size > redis.MaxKey {
					t.Errorf("a prefix of %d bytes and an identity of %d make a key of %d", length, n, size)
				}
				if other, twice := known[key]; twice {
					t.Errorf("identities of %d and %d bytes have the key %s", other, n, key)
				}
				known[key] = n
			}
		}
	}
	legible := strings.Repeat("x", 128)
	if key := redis.FixedKey(strings.Repeat("p", 54), legible); !strings.Contains(key, legible) {
		t.Errorf("the identity fits, but is missing in %s", key)
	}
}

func FuzzKeys(f *testing.F) {
	f.Add("a|b", "a%7Cb")
	f.Add("#", "%23")
	f.Add(strings.Repeat("\xff", 42), strings.Repeat("\xff", 43))
	prefix := strings.Repeat("p", redis.MaxPrefix)
	f.Fuzz(func(t *testing.T, a, b string) {
		one, other := redis.Key(prefix, a), redis.Key(prefix, b)
		if (a == b) != (one == other) {
			t.Errorf("%q and %q have the keys %s and %s", a, b, one, other)
		}
		// The log of the rule with the highest return is the longest key.
		if len(one)+len(":17179869183") > redis.MaxKey {
			t.Errorf("the key of %q has %d bytes", a, len(one))
		}
		for _, c := range []byte(one) {
			if c <= ' ' || c > '~' {
				t.Errorf("the key %q of %q is not printable", one, a)
			}
		}
	})
}

func TestDamagedValuesCountAsAbsent(t *testing.T) {
	server := storetest.StartServer(t)
	s := openRig(t, server)
	s.do(store.Update, now, rules()...)
	whole := s.value()
	// Cut between two entries, the value is valid.
	ends := []int{27, 27 + 39, 27 + 39 + 55}
	for n := range len(whole) {
		s.put(whole[:n])
		if a := s.do(store.Peek, now+1, rules()[0]); (a.Hits != 0) != slices.Contains(ends, n) {
			t.Errorf("cut to %d bytes: %d hits are read", n, a.Hits)
		}
		a := s.do(store.Take, now+1, rules()...)
		if a.Decider >= 0 {
			t.Errorf("cut to %d bytes: rule %d refuses", n, a.Decider)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		value := []byte(whole)
		for range 1 + random.IntN(4) {
			value[random.IntN(len(value))] = byte(random.IntN(256))
		}
		s.put(string(value))
		s.do(store.Op(1+random.IntN(8)), now+1, rules()...) // any answer will do
	}
	for _, garbage := range []string{"", "\x02", "garbage", "\x01" + whole[1:], strings.Repeat("\xff", 1000), whole + "x"} {
		s.put(garbage)
		if a := s.do(store.Take, now+1, rules()...); a.Decider >= 0 || a.Remaining != 4 {
			t.Errorf("%.20q does not count as absent: %+v", garbage, a)
		}
	}
}

func TestKeysOfAnotherTypeAreReplaced(t *testing.T) {
	s := openRig(t, storetest.StartServer(t))
	ctx := context.Background()
	if err := s.client.LPush(ctx, s.key, "x").Err(); err != nil {
		t.Fatal(err)
	}
	if a := s.do(store.Browse, now, rules()[0]); a.Remaining != 5 {
		t.Errorf("with a list in the key: %+v, want nothing counted", a)
	}
	s.do(store.Take, now, rules()[0])
	if a := s.do(store.Peek, now, rules()[0]); a.Hits != 1 {
		t.Errorf("%d hits, want 1", a.Hits)
	}
}

func TestUnknownEntriesAreKept(t *testing.T) {
	s := openRig(t, storetest.StartServer(t))
	s.do(store.Take, now, rules()[0])
	entry := func(number, until int64) string { // of method 7, which is unknown
		head, err := hex.DecodeString(fmt.Sprintf("%010x%012x%04x", number*8+7, until, 6))
		if err != nil {
			t.Fatal(err)
		}
		return string(head) + "future"
	}
	alive, dead := entry(8, now+3_600_000), entry(9, now-24*3_600_000)
	s.put(s.value() + alive + dead)
	s.do(store.Take, now+1, rules()[0], rules()[3])
	if got := s.value(); !strings.Contains(got, alive) || strings.Contains(got, dead) {
		t.Errorf("the value %q, want the active entry and not the one that ended a day ago", got)
	}
	if a := s.do(store.Peek, now+1, rules()[0]); a.Hits != 2 {
		t.Errorf("with unknown entries %d hits are counted, want 2", a.Hits)
	}
	ttl, err := s.client.PTTL(context.Background(), s.key).Result()
	if err != nil || ttl < time.Hour {
		t.Errorf("the value expires in %v (%v), before an entry in it ends", ttl, err)
	}
}

// TestSlowestBucketIsKept uses a bucket that is full in 280 000 years, an instant
// that does not fit into six bytes.
func TestSlowestBucketIsKept(t *testing.T) {
	s := openRig(t, storetest.StartServer(t))
	slow := store.Rule{Subject: []byte("u"), Return: 9, Method: store.Token, Time: 9_007_199, Count: 1, Burst: 1_000_000, Weight: 1_000_000}
	s.do(store.Take, now, slow)
	for i := range int64(3) {
		s.do(store.Take, now+i, rules()[0]) // writes the value, which contains the bucket
	}
	if a := s.do(store.Peek, now, slow); a.Hits != 1_000_000 {
		t.Errorf("%d tokens are taken, want 1 000 000", a.Hits)
	}
}

func TestResetDeletesAllKeys(t *testing.T) {
	s := openRig(t, storetest.StartServer(t))
	all := slices.DeleteFunc(rules(), func(r store.Rule) bool { return r.Method == store.Token })
	s.do(store.Take, now, all...)
	fill(s, now, rules()[2])
	s.do(store.Reset, now, all...)
	keys, err := s.client.Keys(context.Background(), s.Prefix()+":*").Result()
	if err != nil || len(keys) > 0 {
		t.Errorf("%v remain (%v)", keys, err)
	}
}

// TestResetOfBucketIsRemembered finds of a bucket that was reset only the instant, for takes
// before it that are cancelled, and only for the time in which it would have been full.
func TestResetOfBucketIsRemembered(t *testing.T) {
	server := storetest.StartServer(t)
	s := openRig(t, server)
	bucket := store.Rule{Subject: []byte("u"), Return: 9, Method: store.Token, Time: 60, Count: 1, Burst: 5, Weight: 2}
	s.do(store.Take, now, bucket)
	s.do(store.Reset, now+7, bucket)
	const head = 7 // bytes before the entries
	want := fmt.Sprintf("%010x%012x%04x%012x", 9*8+6, int64(now+120_000), 6, int64(now+7))
	if got := hex.EncodeToString([]byte(s.value()[head:])); got != want {
		t.Errorf("the entries are %s, want %s", got, want)
	}
	server.CheckExpiries(t, s.Prefix())
	ttl, err := s.client.PTTL(context.Background(), s.key).Result()
	if err != nil || ttl <= 0 || ttl > 5*time.Minute {
		t.Errorf("the value expires in %v (%v), want about 2 minutes and a half", ttl, err)
	}
}

// fill adds 200 hits from an instant on, so many that the leak counter has a log.
func fill(s *rig, from int64, leak store.Rule) {
	leak.Count = 1000
	for i := range int64(200) {
		s.do(store.Take, from+i, leak)
	}
}

func TestCounterWithoutItsLogIsAbsent(t *testing.T) {
	server := storetest.StartServer(t)
	ctx := context.Background()
	leak := rules()[2]
	for name, lose := range map[string]func(c *goredis.Client, key string) error{
		"deleted":         func(c *goredis.Client, key string) error { return c.Del(ctx, key).Err() },
		"of another type": func(c *goredis.Client, key string) error { c.Del(ctx, key); return c.SAdd(ctx, key, 1).Err() },
		"truncated":       func(c *goredis.Client, key string) error { return c.Set(ctx, key, "x", time.Minute).Err() },
	} {
		t.Run(name, func(t *testing.T) {
			s := openRig(t, server)
			fill(s, now, leak)
			if err := lose(s.client, s.key+":27"); err != nil {
				t.Fatal(err)
			}
			if a := s.do(store.Take, now+200, leak); a.Decider >= 0 || a.Remaining != 4 {
				t.Errorf("a counter without its log does not count as absent: %+v", a)
			}
			fill(s, now+201, leak)
			if a := s.do(store.Peek, now+401, leak); a.Hits != 201 {
				t.Errorf("after filling again: %d hits, want 201", a.Hits)
			}
		})
	}
}

func TestExpiryIsSetOnlyWhenNeeded(t *testing.T) {
	s := openRig(t, storetest.StartServer(t))
	ctx := context.Background()
	leak := rules()[2]
	log := s.key + ":27"
	for i, c := range []struct {
		at     int64
		key    string
		set    bool
		do     func(at int64)
		expiry time.Duration
	}{
		{0, s.key, true, func(at int64) { s.do(store.Take, at, leak) }, 76 * time.Second},
		{16_000, s.key, false, func(at int64) { s.do(store.Take, at, leak) }, 0},
		{16_001, s.key, true, func(at int64) { s.do(store.Take, at, leak) }, 76 * time.Second},
		{16_100, log, true, func(at int64) { fill(s, at, leak) }, 76 * time.Second},
		{16_400, log, false, func(at int64) { fill(s, at, leak) }, 0},
		{40_000, log, true, func(at int64) { fill(s, at, leak) }, 76 * time.Second},
	} {
		// An expiry that the store never sets shows whether it was set again.
		const mark = 5000 * time.Second
		s.client.PExpire(ctx, c.key, mark)
		c.do(now + c.at)
		left, err := s.client.PTTL(ctx, c.key).Result()
		if err != nil {
			t.Fatal(err)
		}
		want := mark
		if c.set {
			want = c.expiry
		}
		if left > want || left < want-5*time.Second {
			t.Errorf("step %d: %s expires in %v, want %v", i, c.key, left, want)
		}
	}
}

func TestCountersSaturate(t *testing.T) {
	s := openRig(t, storetest.StartServer(t))
	for i := range rules() {
		r := rules()[i]
		r.Weight = 1
		s.do(store.Reset, now, r)
		s.do(store.Update, now, r)
		// Each counted 1 becomes the second greatest number.
		const one, greatest = "\x00\x00\x00\x00\x00\x00\x01", "\x1f\xff\xff\xff\xff\xff\xfe"
		value := s.value()
		if r.Method == store.Leak { // only its last run: an instant may have these bytes too
			s.put(strings.TrimSuffix(value, one) + greatest)
		} else {
			s.put(strings.ReplaceAll(value, one, greatest))
		}
		if r.Method == store.Token {
			continue // its amounts are bounded by burst × time
		}
		for range 2 {
			r.Weight = store.MaxWeight
			s.do(store.Update, now+1, r)
			if a := s.do(store.Peek, now+1, r); a.Hits != store.MaxCounter || a.Remaining != 0 {
				t.Errorf("method %d: %d hits and %d left, want %d and 0", r.Method, a.Hits, a.Remaining, int64(store.MaxCounter))
			}
		}
		s.do(store.Refund, now+2, r)
		if a := s.do(store.Peek, now+2, r); a.Hits != store.MaxCounter-store.MaxWeight {
			t.Errorf("method %d: %d hits after a refund", r.Method, a.Hits)
		}
	}
}
