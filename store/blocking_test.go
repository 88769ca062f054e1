package store_test

import (
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
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
		full bool // it has a million runs to begin with
		ask  []call
	}{
		"ten takes of 100 000":     {false, slices.Concat(slices.Repeat([]call{{store.Take, 10, heavy}}, 12), []call{{store.Browse, 0, heavy}, {store.Refund, 10, heavy}, {store.Take, 10, heavy}})},
		"updates beyond the limit": {false, slices.Repeat([]call{{store.Update, 1, heavy}}, 200)},
		"a million runs": {true, []call{
			{store.Take, 1, weighs(leak, 1)},
			{store.Browse, 1, heavy},
			{store.Update, 1, weighs(leak, 1)},
			{store.Refund, 1, weighs(leak, 1)},
			{store.Refund, 1, weighs(leak, 500_000)},
			{store.Take, 1, heavy},
		}},
		"a million runs, most of them out": {true, slices.Concat(
			[]call{{store.Take, 3_600_000 - 400_000, weighs(leak, 1)}}, slices.Repeat([]call{{store.Take, 1, weighs(leak, 1)}}, 2000),
			[]call{{store.Take, 397_000, weighs(leak, 1)}, {store.Take, 1, weighs(leak, 1)}},
		)},
		"a million runs, all out":  {true, []call{{store.Take, 3_700_000, weighs(leak, 1)}}},
		"a million runs, reset":    {true, []call{{store.Reset, 1, leak}}},
		"a million runs, refunded": {true, []call{{store.Refund, 1, weighs(leak, 1_000_000)}}},
	} {
		t.Run(name, func(t *testing.T) {
			worst := time.Duration(0)
			for i, took := range quickest(t, server, 3, c.full, c.ask) {
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
func quickest(t *testing.T, server *storetest.Server, rounds int, full bool, calls []call) []time.Duration {
	t.Helper()
	client := server.Client()
	defer client.Close()
	least := make([]time.Duration, len(calls))
	for round := range rounds {
		s := openShelf(t, server)
		if full {
			s.fill()
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

// million is how many runs a full counter has.
const million = 1_000_000

// millionRuns are runs of one hit each, a millisecond apart, the last one at
// now.
var millionRuns = sync.OnceValue(func() []byte {
	var runs []byte
	for i := range int64(million) {
		runs = append(runs, instantBytes(now-million+1+i)...)
		runs = append(runs, binary.BigEndian.AppendUint64(nil, uint64(i+1))[1:]...)
	}
	return runs
})

// fill writes a full counter. It is the layout that TestLayout holds fast.
func (s *shelf) fill() {
	s.t.Helper()
	const till, expires, run = now + 3_600_000, now + 36_000_000, 13
	last := (million - 1) * run
	var body []byte
	body = append(body, make([]byte, 7+4)...)
	body = binary.BigEndian.AppendUint32(body, million-1)
	body = append(append(body, instantBytes(expires)...), make([]byte, 8)...)
	body = append(body, millionRuns()[last:]...)
	value := append([]byte{1}, instantBytes(expires)...)
	value = append(value, 0, 0, 0, 0, 11)
	value = append(value, instantBytes(till)...)
	value = binary.BigEndian.AppendUint16(value, uint16(len(body)))
	ctx := context.Background()
	for key, text := range map[string][]byte{s.key: append(value, body...), s.key + ":11": millionRuns()[:last]} {
		if err := s.client.Set(ctx, key, text, 10*time.Hour).Err(); err != nil {
			s.t.Fatal(err)
		}
	}
	leak := store.Rule{Subject: []byte("u"), Return: 1, Method: store.Leak, Time: 3600, Count: million}
	if a := s.do(store.Peek, now, leak); a.Hits != million {
		s.t.Fatalf("%d hits are found in a full counter", a.Hits)
	}
}

func instantBytes(ms int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(ms))[2:] }
