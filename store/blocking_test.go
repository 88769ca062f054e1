package store_test

import (
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/store"
	"github.com/koalagate/koalagate/store/storetest"
)

// blocked is the longest that one call may keep Redis from others.
const blocked = 2 * time.Millisecond

// TestLeakNeverBlocksRedis has leak counters of a million hits: in few heavy
// runs, and in as many runs as hits.
func TestLeakNeverBlocksRedis(t *testing.T) {
	server := storetest.StartServer(t)
	leak := store.Rule{Subject: []byte("u"), Return: 1, Method: store.Leak, Time: 3600, Count: 1_000_000}
	heavy := leak
	heavy.Weight = 100_000
	for name, c := range map[string]struct {
		runs int // hits of one, a millisecond apart
		ask  []call
	}{
		"ten takes of 100 000":     {0, slices.Concat(slices.Repeat([]call{{store.Take, 10, heavy}}, 12), []call{{store.Browse, 0, heavy}, {store.Refund, 10, heavy}, {store.Take, 10, heavy}})},
		"updates beyond the limit": {0, slices.Repeat([]call{{store.Update, 1, heavy}}, 200)},
		"a million runs": {1_000_000, []call{
			{store.Take, 1, weighs(leak, 1)},
			{store.Browse, 1, heavy},
			{store.Update, 1, weighs(leak, 1)},
			{store.Refund, 1, weighs(leak, 1)},
			{store.Refund, 1, weighs(leak, 500_000)},
			{store.Take, 1, heavy},
		}},
		"a million runs, most of them out": {1_000_000, slices.Concat(
			[]call{{store.Take, 3_600_000 - 400_000, weighs(leak, 1)}}, slices.Repeat([]call{{store.Take, 1, weighs(leak, 1)}}, 2000),
			[]call{{store.Take, 397_000, weighs(leak, 1)}, {store.Take, 1, weighs(leak, 1)}},
		)},
		"a million runs, all out":  {1_000_000, []call{{store.Take, 3_700_000, weighs(leak, 1)}}},
		"a million runs, reset":    {1_000_000, []call{{store.Reset, 1, leak}}},
		"a million runs, refunded": {1_000_000, []call{{store.Refund, 1, weighs(leak, 1_000_000)}}},
	} {
		t.Run(name, func(t *testing.T) {
			worst := time.Duration(0)
			for i, took := range quickest(t, server, 5, c.runs, c.ask) {
				if worst = max(worst, took); took > blocked {
					t.Errorf("call %d, operation %d, keeps Redis for %v; want at most %v", i, c.ask[i].op, took, blocked)
				}
			}
			t.Logf("the longest call keeps Redis for %v", worst)
		})
	}
}

// call is an operation that comes so many ms after the one before.
type call struct {
	op    store.Op
	after int64
	rule  store.Rule
}

func weighs(r store.Rule, n int64) store.Rule {
	r.Weight = n
	return r
}

// quickest puts the calls to fresh counters several times and returns, of each
// call, the shortest time that Redis says it took. What a call has to do takes
// its time every time; what a busy machine adds does not.
func quickest(t *testing.T, server *storetest.Server, rounds, runs int, calls []call) []time.Duration {
	t.Helper()
	client := server.Client()
	defer client.Close()
	least := make([]time.Duration, len(calls))
	for round := range rounds {
		s := openShelf(t, server)
		if runs > 0 {
			s.makeRuns(runs)
		}
		s.do(store.Browse, now, calls[0].rule) // Redis knows the script from here on
		at := int64(now)
		for i, c := range calls {
			at += c.after
			took := s.timed(func() { s.do(c.op, at, c.rule) })
			if round == 0 || took < least[i] {
				least[i] = took
			}
		}
	}
	return least
}

// timed is how long Redis took for the one call that f makes.
func (s *shelf) timed(f func()) time.Duration {
	s.t.Helper()
	ctx := context.Background()
	if err := s.client.ConfigSet(ctx, "slowlog-log-slower-than", "0").Err(); err != nil {
		s.t.Fatal(err)
	}
	f()
	log, err := s.client.SlowLogGet(ctx, 4).Result()
	if err != nil {
		s.t.Fatal(err)
	}
	at := slices.IndexFunc(log, func(l redis.SlowLog) bool { return strings.HasPrefix(strings.ToLower(l.Args[0]), "evalsha") })
	if at < 0 {
		s.t.Fatalf("no call of the script in %v", log)
	}
	return log[at].Duration
}

// makeRuns writes a counter with runs of one hit each, the last one at now. It
// is the layout that TestLayout holds fast.
func (s *shelf) makeRuns(n int) {
	s.t.Helper()
	run := func(b []byte, i int) []byte {
		b = append(b, instantBytes(now-int64(n-1-i))...)
		return append(b, binary.BigEndian.AppendUint64(nil, uint64(i+1))[1:]...)
	}
	var log []byte
	for i := range n - 1 {
		log = run(log, i)
	}
	const till, expires = now + 3_600_000, now + 36_000_000
	body := append(make([]byte, 7), 0, 0, 0, 0)
	body = binary.BigEndian.AppendUint32(body, uint32(n-1))
	body = run(append(append(body, instantBytes(expires)...), make([]byte, 8)...), n-1)
	value := append([]byte{1}, instantBytes(expires)...)
	value = append(value, 0, 0, 0, 0, 11)
	value = append(value, instantBytes(till)...)
	value = binary.BigEndian.AppendUint16(value, uint16(len(body)))
	ctx := context.Background()
	for key, text := range map[string][]byte{s.key: append(value, body...), s.key + ":11": log} {
		if err := s.client.Set(ctx, key, text, 10*time.Hour).Err(); err != nil {
			s.t.Fatal(err)
		}
	}
	leak := store.Rule{Subject: []byte("u"), Return: 1, Method: store.Leak, Time: 3600, Count: 1_000_000}
	if a := s.do(store.Peek, now, leak); a.Hits != int64(n) {
		s.t.Fatalf("%d runs were made and %d hits are found", n, a.Hits)
	}
}

func instantBytes(ms int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(ms))[2:] }
