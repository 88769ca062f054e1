package redis_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/store/storetest/machine"
)

// TestSharesInRedisExceedNoLimit lets gateways share limits in Redis with each other and with
// single hits, and compares each assignment with the one of the in-process store.
func TestSharesInRedisExceedNoLimit(t *testing.T) {
	n := 60
	if *long {
		n = 10_000
	}
	s := storetest.StartServer(t).Open(t, func(o *redis.Options) { o.Linger = time.Hour; o.Refusals = -1 })
	machine.Parts(t, n, func(t *testing.T, name string) {
		n, assigned := 0, 0
		rapid.Check(t, func(rt *rapid.T) {
			n++
			m := memory.New(memory.Options{})
			defer m.Close()
			f := machine.ShareDialogue(rt, &machine.Twin{Sharer: s, Other: m, Fail: rt.Fatalf}, now, name+strconv.Itoa(n))
			assigned += f.Assigned
		})
		t.Logf("%d dialogues with %d assignments", n, assigned)
	})
}

// TestClockBackRefillsNothingTwice sets the clock back while shares last: what is reserved for
// them is no less than before, and not given back twice when they change or end.
func TestClockBackRefillsNothingTwice(t *testing.T) {
	s := storetest.StartServer(t).Open(t, func(o *redis.Options) { o.Linger = time.Hour; o.Refusals = -1 })
	for _, back := range []int64{-100, -3000, -9000} {
		for _, rule := range []store.Rule{
			{Return: 1, Method: store.Token, Time: 1, Count: 600, Burst: 1200, Lease: 200},
			{Return: 2, Method: store.Count, Time: 60, Count: 36_000, Lease: 200},
		} {
			m := memory.New(memory.Options{})
			rule.Subject, rule.Weight = []byte(strconv.FormatInt(back, 10)), 1
			f := machine.NewShares(&machine.Twin{Sharer: s, Other: m, Fail: t.Fatalf}, now, []store.Rule{rule}, 2, func() int64 { return 0 }, t.Fatalf)
			pass := func(times int) {
				for range times {
					f.Ask(0, 30)
					f.Ask(1, 30)
					f.Pass(50)
				}
			}
			pass(160)
			f.Jump(back)
			pass(50)
			f.Blanket(0) // it has no bucket, and gets one afresh
			pass(30)
			f.Jump(back)
			f.Leave(1)
			f.Look()
			pass(200)
			f.Take(-1, 1500)
			m.Close()
		}
	}
}

// TestAdmittedHitsStaySpentAfterAClockStepsBack has a gateway admit hits that it never reports, and
// sets the clock back. The bucket was used since, so that the store knows how late it was: what the
// gateway may have admitted by then is not lent again when it leaves, or gets its bucket afresh.
func TestAdmittedHitsStaySpentAfterAClockStepsBack(t *testing.T) {
	s := storetest.StartServer(t).Open(t, func(o *redis.Options) { o.Linger = time.Hour; o.Refusals = -1 })
	for name, end := range map[string]func(*machine.Shares){
		"leaves": func(f *machine.Shares) {
			f.Leave(0) // with a report, of a bucket that is not in use
			f.Ask(1, 1)
			f.Leave(1)
		},
		"afresh": func(f *machine.Shares) {
			f.Blanket(1)
			f.Pass(1100)
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := memory.New(memory.Options{})
			defer m.Close()
			rule := store.Rule{Subject: []byte(name), Return: 1, Method: store.Token, Time: 1, Count: 20, Burst: 50, Lease: 200, Weight: 1}
			f := machine.NewShares(&machine.Twin{Sharer: s, Other: m, Fail: t.Fatalf}, now, []store.Rule{rule}, 2, func() int64 { return 0 }, t.Fatalf)
			f.Ask(0, 1)
			f.Pass(1)
			f.Ask(1, 1)
			f.Pass(1)
			for range 20 {
				f.Ask(1, 1)
				f.Pass(200)
			}
			f.Take(-1, 60)
			f.Jump(-4000)
			end(f)
			f.Take(-1, 60)
			f.Pass(9000)
			f.Take(-1, 60)
		})
	}
}

// TestWaitingSharesSaveNothingBeforeTimePasses empties a bucket, and sets the clock back. A gateway
// that waits for its first burst gets it when so much time has passed since, not at once, because
// the bucket was last used at a later instant.
func TestWaitingSharesSaveNothingBeforeTimePasses(t *testing.T) {
	s := storetest.StartServer(t).Open(t, func(o *redis.Options) { o.Linger = time.Hour; o.Refusals = -1 })
	m := memory.New(memory.Options{})
	defer m.Close()
	rule := store.Rule{Subject: []byte("a"), Return: 1, Method: store.Token, Time: 7, Count: 5, Burst: 40, Lease: 200, Weight: 1}
	delay := int64(store.OnTheWay) // of the first message: in less time no gateway wants much
	f := machine.NewShares(&machine.Twin{Sharer: s, Other: m, Fail: t.Fatalf}, now, []store.Rule{rule}, 1, func() int64 { return delay }, t.Fatalf)
	admitted := f.Ask(0, 9)
	f.Pass(delay - 1)
	if f.Take(-1, 40) != 40 {
		t.Fatal("the bucket is not full")
	}
	f.Jump(-6000)
	delay = 0
	for range 100 {
		f.Pass(100)
		admitted += f.Ask(0, 1)
	}
	if admitted == 0 {
		t.Error("the gateway got nothing in 10 s")
	}
}

// TestReturnsFitAfterAClockStepsBack sets the clock back while a gateway holds most of a bucket that
// single hits have emptied. What the gateway gives back then has to fit into the bucket beside
// what it keeps.
func TestReturnsFitAfterAClockStepsBack(t *testing.T) {
	s := storetest.StartServer(t).Open(t, func(o *redis.Options) { o.Linger = time.Hour; o.Refusals = -1 })
	m := memory.New(memory.Options{})
	defer m.Close()
	twin := &machine.Twin{Sharer: s, Other: m, Fail: t.Fatalf}
	rule := store.Rule{Subject: []byte("a"), Return: 1, Method: store.Token, Time: 1, Count: 20, Burst: 50, Lease: 200, Weight: 1}
	report := func(at, allowed, denied int64) store.Assignment {
		t.Helper()
		a, err := twin.Assign(t.Context(), &store.Usage{
			Now: now + at, Zone: time.UTC, Rules: []store.Rule{rule}, Holder: "gateway", Stream: "stream", Lasts: 7000,
			Reported: at > 0, Allowed: allowed, Denied: denied, Elapsed: 5000,
		})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	take := func(at int64) (admitted int) {
		t.Helper()
		var a store.Answers
		p := &store.Plan{Op: store.Take, Now: now + at, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{rule}}}}
		for {
			if err := twin.Evaluate(t.Context(), p, &a); err != nil {
				t.Fatal(err)
			}
			if a.Sets[0].Decider >= 0 {
				return admitted
			}
			admitted++
		}
	}
	report(0, 0, 0)
	report(5000, 2, 100)
	take(8000)
	busy, idle := report(10_000, 0, 300), report(4000, 0, 0)
	if idle.Rate*10 > busy.Rate {
		t.Fatalf("a rate of %d, and then %d: nothing comes back", busy.Rate, idle.Rate)
	}
	if n := take(4000); n > 50 {
		t.Errorf("%d hits are admitted from a bucket of 50", n)
	}
	report(9000, 0, 0)
	take(9000)
}

// TestLostReportsAreSpent loses reports of a gateway in a window. It has admitted hits that
// nobody will report: they are not given back when the next report shows fewer, neither to other
// gateways nor to single hits.
func TestLostReportsAreSpent(t *testing.T) {
	s := storetest.StartServer(t).Open(t, func(o *redis.Options) { o.Linger = time.Hour; o.Refusals = -1 })
	for name, lost := range map[string][]int{"none": nil, "one": {20}, "two of four": {20, 30}, "the first": {5}} {
		t.Run(name, func(t *testing.T) {
			for _, rule := range []store.Rule{
				{Return: 1, Method: store.Token, Time: 1, Count: 16, Burst: 100, Lease: 200},
				{Return: 2, Method: store.Count, Time: 60, Count: 1000, Lease: 200},
			} {
				m := memory.New(memory.Options{})
				defer m.Close()
				rule.Subject, rule.Weight = []byte(name), 1
				f := machine.NewShares(&machine.Twin{Sharer: s, Other: m, Fail: t.Fatalf}, now, []store.Rule{rule}, 1, func() int64 { return 0 }, t.Fatalf)
				for i := range 58 * 20 { // 20 a second
					if i%20 == 10 && slices.Contains(lost, i/20+1) {
						f.Lose(0)
					}
					f.Ask(0, 1)
					f.Pass(50)
				}
				f.Leave(0)
				f.Take(-1, 1000)
				t.Logf("%v: %d hits are admitted", rule.Method, f.Admitted)
			}
		})
	}
}

func TestSharesOfSmallLimitsInRedis(t *testing.T) {
	storetest.RunLeastShares(t, storetest.StartServer(t).Open(t, func(o *redis.Options) { o.Linger = time.Hour; o.Refusals = -1 }))
}

func TestResetOfSharedInRedis(t *testing.T) {
	storetest.RunResetOfShared(t, storetest.StartServer(t).Open(t, func(o *redis.Options) { o.Linger = time.Hour; o.Refusals = -1 }))
}

func TestTideOfSharedInRedis(t *testing.T) {
	storetest.RunTideOfShared(t, storetest.StartServer(t).Open(t, func(o *redis.Options) { o.Linger = time.Hour; o.Refusals = -1 }))
}

func TestSharesOfManyHoldersInRedis(t *testing.T) {
	m := memory.New(memory.Options{})
	defer m.Close()
	s := storetest.StartServer(t).Open(t, func(o *redis.Options) { o.Linger = time.Hour; o.Refusals = -1 })
	storetest.RunManyHolders(t, &machine.Twin{Sharer: s, Other: m, Fail: t.Errorf})
}
