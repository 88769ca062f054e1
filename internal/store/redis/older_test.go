package redis_test

import (
	"context"
	_ "embed" // for the script
	"encoding/binary"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

//go:embed testdata/older.lua
var olderScript string

// older carries out an operation on the rules of the subject u as an earlier version
// of this program does. It returns whether a rule refuses, what remains and the retry.
func (s *rig) older(op store.Op, at int64, rules ...store.Rule) (refuses bool, remaining, retry int64) {
	s.t.Helper()
	keys, list := []string{s.key}, []int64{at, 1000, 0, 1, 0, 1, 1, 0, int64(op), 1, 2, int64(len(rules))}
	for _, r := range rules {
		size := r.Base
		if r.Method == store.Token {
			size = r.Burst
		}
		list = append(list, r.Tag(), r.Time*1000, r.Weight, r.Count, size, 0)
	}
	list = append(list, 1)
	for _, r := range rules {
		if list = append(list, 1); r.Method == store.Leak {
			keys = append(keys, s.key+":27")
			list = append(list, int64(len(keys)))
		}
	}
	blob := binary.BigEndian.AppendUint32([]byte{0xdd}, uint32(len(list)))
	for _, n := range list {
		blob = binary.BigEndian.AppendUint64(append(blob, 0xcf), uint64(n))
	}
	reply, err := s.client.Eval(context.Background(), olderScript, keys, blob).Text()
	if err != nil || reply[0] != 1 {
		s.t.Fatalf("the older script: %v, %.200q", err, reply)
	}
	number := func(text string) (n int64) {
		for i := range len(text) {
			n = n<<8 | int64(text[i])
		}
		return n
	}
	answer := reply[7:]
	if refuses = answer[0]&1 != 0; refuses {
		retry = number(answer[16:23]) - 1
	}
	return refuses, number(answer[3:9]), retry
}

// TestOlderVersionsKeepNewStates lets an earlier version count beside this one: it
// refuses what a ban, a debt or a calendar window refuses, and what it writes beside
// them loses nothing.
func TestOlderVersionsKeepNewStates(t *testing.T) {
	s := openRig(t, storetest.StartServer(t), func(o *redis.Options) { o.Linger = time.Hour })
	counts, leaks, tokens := rules()[0], rules()[2], rules()[3]
	counts.Ban, leaks.Ban, counts.Count, leaks.Count = 90, 90, 1, 1
	tokens.Overdraft, tokens.Weight = true, 8 // 5 per minute: 3 below empty
	month := store.Rule{Subject: []byte("u"), Return: 6, Method: store.Count, Unit: store.Month, Weight: 1, Time: 60, Count: 1}
	other := store.Rule{Subject: []byte("u"), Return: 7, Method: store.Count, Weight: 1, Time: 60, Count: 1000}
	for _, r := range []store.Rule{counts, leaks} {
		s.do(store.Take, now, r)
		if a := s.do(store.Take, now, r); !a.Banned {
			t.Fatalf("method %d: no ban: %+v", r.Method, a)
		}
	}
	s.do(store.Take, now, tokens)
	s.do(store.Take, now, month)
	check := func(at int64) {
		t.Helper()
		for _, r := range []store.Rule{counts, leaks} {
			if a := s.do(store.Browse, now+at, r); a.Banned != (at < 90_000) || a.Banned && a.Retry != 90_000-at {
				t.Errorf("method %d after %d ms: %+v", r.Method, at, a)
			}
		}
		one := tokens
		one.Weight = 1
		if a := s.do(store.Browse, now+at, one); at < 48_000 && a.Retry != 48_000-at {
			t.Errorf("the debt after %d ms: %+v", at, a)
		}
		if a := s.do(store.Browse, now+at, month); a.Decider < 0 {
			t.Errorf("the month after %d ms: %+v", at, a)
		}
	}
	check(0)
	for at := int64(1000); at < 36_000; at += 5000 {
		s.older(store.Take, now+at, other) // it writes the value
		check(at)
		for _, r := range []store.Rule{counts, leaks, month} {
			if refuses, remaining, retry := s.older(store.Take, now+at, r); !refuses || remaining != 0 || r.Unit == store.Seconds && retry != 90_000-at {
				t.Errorf("the older version, method %d after %d ms: refuses %v, %d remain, retry in %d ms", r.Method, at, refuses, remaining, retry)
			}
		}
		one := tokens
		one.Weight = 1
		if refuses, remaining, _ := s.older(store.Take, now+at, one); !refuses || remaining != 0 {
			t.Errorf("the older version admits a token %d ms after a debt of 36 s", at)
		}
		check(at)
	}
	one := tokens
	one.Weight, one.Overdraft = 1, false
	if refuses, _, _ := s.older(store.Take, now+48_000, one); refuses {
		t.Error("the older version refuses a token after the debt is paid")
	}
	if a := s.do(store.Take, now+48_000, one); a.Decider < 0 {
		t.Errorf("the token of the older version counts for nothing: %+v", a)
	}
	for _, r := range []store.Rule{counts, leaks} {
		if refuses, _, _ := s.older(store.Take, now+90_000, r); refuses {
			t.Errorf("the older version, method %d: refuses after the ban", r.Method)
		}
		if a := s.do(store.Take, now+90_000, r); a.Decider < 0 {
			t.Errorf("method %d: the hit of the older version counts for nothing: %+v", r.Method, a)
		}
	}
}

// TestOlderVersionsLiftNoBan lets an earlier version change banned counters: they
// refuse until the ban ends, and are unused then.
func TestOlderVersionsLiftNoBan(t *testing.T) {
	s := openRig(t, storetest.StartServer(t), func(o *redis.Options) { o.Linger = time.Hour })
	for _, op := range []store.Op{store.Update, store.Refund} {
		for _, r := range []store.Rule{rules()[0], rules()[2]} {
			r.Ban, r.Count = 90, 1
			s.do(store.Reset, now, r)
			s.do(store.Take, now, r)
			s.do(store.Take, now, r)
			s.older(op, now+1000, r)
			if a := s.do(store.Take, now+29_000, r); a.Decider < 0 {
				t.Errorf("operation %d, method %d: the ban was lifted: %+v", op, r.Method, a)
			}
			if a := s.do(store.Take, now+200_000, r); a.Decider >= 0 {
				t.Errorf("operation %d, method %d: refused after the ban: %+v", op, r.Method, a)
			}
		}
	}
}

// TestOlderVersionsCountWhatIsHeld lets an earlier version use up a limit of which an
// instance holds a part: it counts the part as spent, and keeps the record of it.
func TestOlderVersionsCountWhatIsHeld(t *testing.T) {
	s := openRig(t, storetest.StartServer(t), func(o *redis.Options) { o.Linger, o.Refusals = time.Hour, -1 })
	leased := store.Rule{Subject: []byte("u"), Return: 9, Method: store.Count, Weight: 4, Time: 60, Count: 20, Lease: 200}
	s.do(store.Take, now, leased)
	g, err := s.Lease(context.Background(), &store.Lease{Now: now, Rule: leased, Ask: 2, Lasts: 2000})
	if err != nil || g.Granted != 2 || g.Held != 2 {
		t.Fatalf("%+v, %v; want a part of 2 hits", g, err)
	}
	plain := leased
	plain.Weight, plain.Lease = 14, 0
	if refuses, _, _ := s.older(store.Take, now+100, plain); refuses {
		t.Error("the older version refuses what is left")
	}
	plain.Weight, leased.Weight = 1, 1
	if refuses, _, _ := s.older(store.Take, now+100, plain); !refuses {
		t.Error("the older version admits what is held")
	}
	if a := s.do(store.Take, now+200, leased); a.Decider < 0 || !a.Early {
		t.Errorf("after the older version: %+v; want a refusal because of what is held", a)
	}
	back := store.Lease{Now: now + 300, Rule: leased, Era: g.Era, Ends: g.Ends, Drop: 2, Back: 2, Lasts: 2000}
	if g, err := s.Lease(context.Background(), &back); err != nil || g.Era != back.Era || g.Held != 0 || g.Remaining != 2 {
		t.Errorf("giving back: %+v, %v; want 2 remaining hits", g, err)
	}
}
