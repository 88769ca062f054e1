package memory_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/store/storetest/machine"
)

// TestSharesAreUsed has three gateways and other calls ask for more than a limit, for two
// minutes. Nearly all of it is used, also when one gateway wants little, and after one is
// killed and another comes.
func TestSharesAreUsed(t *testing.T) {
	for _, c := range []struct {
		name string
		rule store.Rule
		per  float64 // hits per second
	}{
		{"token", store.Rule{Subject: []byte("a"), Return: 1, Method: store.Token, Time: 1, Count: 600, Burst: 1200, Lease: 200, Weight: 1}, 600},
		{"slow token", store.Rule{Subject: []byte("b"), Return: 1, Method: store.Token, Time: 10, Count: 30, Burst: 100, Lease: 200, Weight: 1}, 3},
		{"count", store.Rule{Subject: []byte("c"), Return: 1, Method: store.Count, Time: 60, Count: 36000, Lease: 200, Weight: 1}, 600},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := memory.New(memory.Options{})
			defer m.Close()
			f := machine.NewShares(m, 1_780_000_000_000, []store.Rule{c.rule}, 3, func() int64 { return 20 }, t.Fatalf)
			wants := []float64{c.per, c.per, c.per / 10}
			asked := make([]float64, 3)
			run := func(seconds int) float64 {
				before, begin := f.Admitted, f.Now
				for f.Now < begin+int64(seconds)*1000 {
					for i := range asked {
						asked[i] += wants[i] / 20
						n := int64(asked[i])
						asked[i] -= float64(n)
						f.Ask(i, n)
					}
					f.Pass(50)
				}
				return float64(f.Admitted-before) / (float64(seconds) * c.per)
			}
			t.Logf("first minute %.3f", run(60))
			if used := run(60); used < 0.9 {
				t.Errorf("%.3f of the limit is used", used)
			} else {
				t.Logf("%.3f of the limit is used", used)
			}
			f.Kill(0)
			f.Add()
			if used := run(60); used < 0.85 {
				t.Errorf("%.3f of the limit is used in the minute after a kill", used)
			} else {
				t.Logf("%.3f of the limit is used in the minute after a kill", used)
			}
			t.Logf("%d assignments, refused %v", f.Assigned, f.Refused)
		})
	}
}

// TestSharesExceedNoLimit lets gateways share limits with each other and with single hits,
// whatever happens to them and to their messages.
func TestSharesExceedNoLimit(t *testing.T) {
	n := 300
	if *long {
		n = 10_000
	}
	machine.Dialogues(t, n)
	m := memory.New(memory.Options{})
	defer m.Close()
	var assigned, dialogues int
	var admitted, single int64
	refused := map[store.Reason]int{}
	rapid.Check(t, func(rt *rapid.T) {
		dialogues++
		f := machine.ShareDialogue(rt, m, 1_780_000_000_000, strconv.Itoa(dialogues))
		assigned, admitted, single = assigned+f.Assigned, admitted+f.Admitted, single+f.Single
		for reason, n := range f.Refused {
			refused[reason] += n
		}
	})
	t.Logf("%d dialogues: %d hits, %d of them single ones; %d assignments, else %v", dialogues, admitted, single, assigned, refused)
}

// TestReturningHoldersGetTheirOwnShares has two holders of one name, as in a hot restart. One of
// them comes back by another stream: it goes on with the share that nobody reports, if one
// lasts, and the other keeps its own.
func TestReturningHoldersGetTheirOwnShares(t *testing.T) {
	const begin = 1_780_000_000_000
	rule := store.Rule{Subject: []byte("a"), Return: 1, Method: store.Token, Time: 1, Count: 600, Burst: 1200, Lease: 200, Weight: 1}
	for _, c := range []struct {
		name    string
		reports map[string][]int64 // of streams, when, in s
		returns int64              // when it does
		goesOn  string
	}{
		{"its predecessor runs", map[string][]int64{"old": {0, 5, 10}, "new": {2, 7}}, 13, "new"},
		{"its successor runs", map[string][]int64{"old": {0, 5}, "new": {2, 7}}, 10, "old"},
		{"its predecessor has ended", map[string][]int64{"old": {0}, "new": {2, 7, 12}}, 17, "new"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := memory.New(memory.Options{})
			defer m.Close()
			assign := func(seconds int64, stream string, u store.Usage) store.Assignment {
				t.Helper()
				u.Now, u.Zone, u.Rules, u.Holder, u.Stream, u.Lasts = begin+seconds*1000, time.UTC, []store.Rule{rule}, "edge-1", stream, 7000
				a, err := m.Assign(t.Context(), &u)
				if err != nil {
					t.Fatal(err)
				}
				return a
			}
			for at := range c.returns {
				for stream, times := range c.reports {
					if i := slices.Index(times, at); i >= 0 {
						assign(at, stream, store.Usage{Reported: true, Denied: 5000, Elapsed: int64(min(i, 1)) * 5000, Fresh: i == 0})
					}
				}
			}
			before := assign(c.returns, c.goesOn, store.Usage{})
			if after := assign(c.returns, "third", store.Usage{Reported: true, Returns: true, Allowed: 1}); after.Debt > 0 || after.Burst != before.Burst || after.Rate == 0 {
				t.Errorf("it goes on with %+v, of %+v", after, before)
			}
			for stream := range c.reports {
				ended := len(c.reports[stream]) == 1
				if a := assign(c.returns, stream, store.Usage{}); (a.Rate == 0) != (ended || stream == c.goesOn) {
					t.Errorf("then the stream %s has %+v", stream, a)
				}
			}
		})
	}
}

// TestSuccessorBeginsAsItsPredecessor has a holder come while another one of its name uses all of
// the limit. Nobody knows how soon the traffic moves: each gets half.
func TestSuccessorBeginsAsItsPredecessor(t *testing.T) {
	m := memory.New(memory.Options{})
	defer m.Close()
	rule := store.Rule{Subject: []byte("a"), Return: 1, Method: store.Token, Time: 1, Count: 600, Burst: 1200, Lease: 200, Weight: 1}
	f := machine.NewShares(m, 1_780_000_000_000, []store.Rule{rule}, 1, func() int64 { return 0 }, t.Fatalf)
	ask := func(gateway int, ms int64) (admitted int64) {
		for end := f.Now + ms; f.Now < end; f.Pass(50) {
			admitted += f.Ask(gateway, 45)
		}
		return admitted
	}
	ask(0, 20_000)
	f.Succeed(0)
	ask(1, 2000)
	if got := ask(1, 2000); got < 550 || got > 650 {
		t.Errorf("%d hits in 2 s; want half of the 1200 that the limit admits", got)
	}
}

// TestSmallFirstBurstGrows has a gateway come when hardly anything is left of a bucket. Its
// burst is small, until more is free.
func TestSmallFirstBurstGrows(t *testing.T) {
	m := memory.New(memory.Options{})
	defer m.Close()
	rule := store.Rule{Subject: []byte("a"), Return: 1, Method: store.Token, Time: 1, Count: 600, Burst: 1200, Lease: 200, Weight: 1}
	f := machine.NewShares(m, 1_780_000_000_000, []store.Rule{rule}, 1, func() int64 { return 0 }, t.Fatalf)
	f.Take(0, 1195)
	f.Ask(0, 10)
	f.Pass(100)
	if n := f.Ask(0, 100); n > 20 {
		t.Fatalf("%d hits are admitted at once; want few", n)
	}
	f.Pass(12_000)
	if n := f.Ask(0, 100); n != 30 {
		t.Errorf("%d hits are admitted at once; want a quarter of half the share, 30", n)
	}
}

// The smallest limits of which there are shares leave a hit for one.
func TestSharesOfSmallLimits(t *testing.T) {
	m := memory.New(memory.Options{})
	defer m.Close()
	storetest.RunLeastShares(t, m)
}

func TestResetOfShared(t *testing.T) {
	m := memory.New(memory.Options{})
	defer m.Close()
	storetest.RunResetOfShared(t, m)
}

func TestTideOfShared(t *testing.T) {
	m := memory.New(memory.Options{})
	defer m.Close()
	storetest.RunTideOfShared(t, m)
}

// TestFullStoreReportsUsagesWithoutCounters has more identities share limits than have counters.
func TestFullStoreReportsUsagesWithoutCounters(t *testing.T) {
	var full, refused uint64
	m := memory.New(memory.Options{MaxIdentities: 64, OnFull: func() { full++ }})
	defer m.Close()
	for i := range 200 {
		rule := store.Rule{Subject: []byte(strconv.Itoa(i)), Return: 1, Method: store.Token, Time: 1, Count: 100, Burst: 200, Lease: 200}
		a, err := m.Assign(t.Context(), &store.Usage{Now: 1_780_000_000_000, Zone: time.UTC, Rules: []store.Rule{rule}, Holder: "edge-1", Reported: true, Allowed: 1, Lasts: 7000})
		if err != nil {
			t.Fatal(err)
		}
		if a.Reason == store.OutOfMemory {
			refused++
		}
	}
	if refused == 0 || full != refused || m.Shared() != refused {
		t.Errorf("%d usages without counters are reported %d times, and counted as %d", refused, full, m.Shared())
	}
}

func TestSharesOfManyHolders(t *testing.T) {
	m := memory.New(memory.Options{})
	defer m.Close()
	storetest.RunManyHolders(t, m)
}
