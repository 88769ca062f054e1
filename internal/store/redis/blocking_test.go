package redis_test

import (
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// blocks is a script that occupies Redis for as long as one call may: about two
// milliseconds, more on a slow machine.
const blocks = "local n = 0 for i = 1, 26000 do n = n + #string.sub('abcdefghijklm', i % 13 + 1) end return n"

// TestLeakNeverBlocksRedis uses leak counters of a million hits, in few heavy runs
// and in as many runs as hits.
func TestLeakNeverBlocksRedis(t *testing.T) {
	server := storetest.StartServer(t)
	leak := store.Rule{Subject: []byte("u"), Return: 1, Method: store.Leak, Time: 3600, Count: 1_000_000}
	heavy := leak
	heavy.Weight = 100_000
	for name, c := range map[string]struct {
		full bool // the counter starts with a million runs
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
		"a million runs, most of which left": {true, slices.Concat(
			[]call{{store.Take, 3_600_000 - 400_000, weighs(leak, 1)}}, slices.Repeat([]call{{store.Take, 1, weighs(leak, 1)}}, 2000),
			[]call{{store.Take, 397_000, weighs(leak, 1)}, {store.Take, 1, weighs(leak, 1)}},
		)},
		"a million runs, all left": {true, []call{{store.Take, 3_700_000, weighs(leak, 1)}}},
		"a million runs, reset":    {true, []call{{store.Reset, 1, leak}}},
		"a million runs, refunded": {true, []call{{store.Refund, 1, weighs(leak, 1_000_000)}}},
	} {
		t.Run(name, func(t *testing.T) {
			least, most := quickest(t, server, c.full, c.ask)
			for i, took := range least {
				if took > most {
					t.Errorf("call %d, operation %d, occupies Redis for %v; want at most %v", i, c.ask[i].op, took, most)
				}
			}
			t.Logf("the longest call occupies Redis for %v; the bound is %v", slices.Max(least), most)
		})
	}
}

// call is an operation, after ms later than the previous one.
type call struct {
	op    store.Op
	after int64
	rule  store.Rule
}

// weighs returns the rule with weight n.
func weighs(r store.Rule, n int64) store.Rule {
	r.Weight = n
	return r
}

// quickest makes the calls several times on fresh counters. It returns the shortest
// time that Redis reports for each call, and the time that a call may take. The
// work of a call takes its time in every round, while a busy machine adds to some
// rounds only; so quickest runs further rounds while a call takes too long.
func quickest(t *testing.T, server *storetest.Server, full bool, calls []call) (least []time.Duration, most time.Duration) {
	t.Helper()
	const rounds, patient = 3, 30
	least = make([]time.Duration, len(calls))
	for round := 0; round < rounds || round < patient && slices.Max(least) > most; round++ {
		s := openRig(t, server)
		took := s.timed("eval", func() {
			if err := s.client.Eval(context.Background(), blocks, nil).Err(); err != nil {
				t.Fatal(err)
			}
		})
		if round == 0 || took < most {
			most = took
		}
		if full {
			s.fill()
		}
		s.do(store.Browse, now, calls[0].rule) // Redis knows the script from here on
		at := int64(now)
		for i, c := range calls {
			at += c.after
			took := s.timed("evalsha", func() { s.do(c.op, at, c.rule) })
			if round == 0 || took < least[i] {
				least[i] = took
			}
		}
	}
	return least, most
}

// timed returns how long Redis took for the command, which f calls once.
func (s *rig) timed(command string, f func()) time.Duration {
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
	at := slices.IndexFunc(log, func(l goredis.SlowLog) bool { return strings.EqualFold(l.Args[0], command) })
	if at < 0 {
		s.t.Fatalf("no %s in %v", command, log)
	}
	return log[at].Duration
}

// million is the number of runs of a full counter.
const million = 1_000_000

// millionRuns returns runs of one hit each, a millisecond apart, the last one at
// now.
var millionRuns = sync.OnceValue(func() []byte {
	var runs []byte
	for i := range int64(million) {
		runs = append(runs, instantBytes(now-million+1+i)...)
		runs = append(runs, binary.BigEndian.AppendUint64(nil, uint64(i+1))[1:]...)
	}
	return runs
})

// fill writes a full counter, in the layout that TestLayout checks.
func (s *rig) fill() {
	s.t.Helper()
	const till, expires, run = now + 3_600_000, now + 36_000_000, 13
	last := (million - 1) * run
	var body []byte
	body = append(body, make([]byte, 7+4)...)
	body = binary.BigEndian.AppendUint32(body, million-1)
	body = append(append(body, instantBytes(expires)...), make([]byte, 8)...)
	body = append(body, millionRuns()[last:]...)
	value := append([]byte{2}, instantBytes(expires)...)
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
