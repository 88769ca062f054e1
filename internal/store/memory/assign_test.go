package memory_test

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/memory"
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
