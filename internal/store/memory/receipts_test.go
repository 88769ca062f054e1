package memory

import (
	"context"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
)

// everything settles all parts, with the estimates as they are.
type everything struct{}

func (everything) Judge(int64, store.Method) store.Use { return store.Use{Concerns: true} }

// takeAt takes at an instant with one rule.
func takeAt(t *testing.T, m *Store, now int64, r store.Rule) *store.Answers {
	t.Helper()
	a := new(store.Answers)
	if err := m.Evaluate(context.Background(), &store.Plan{Op: store.Take, Now: now, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{r}}}}, a); err != nil {
		t.Fatal(err)
	}
	return a
}

func (m *Store) settleAt(t *testing.T, now int64, receipt string) bool {
	t.Helper()
	got, err := m.Settle(context.Background(), &store.Settlement{Receipt: receipt, Now: now, Zone: time.UTC, Judge: everything{}})
	if err != nil {
		t.Fatal(err)
	}
	return got.Known
}

// TestReceiptsAreBounded fills the store with receipts: then holds are refused and
// estimates stand, until receipts are settled or expire.
func TestReceiptsAreBounded(t *testing.T) {
	excesses := 0
	m := New(Options{MaxReceipts: 3, OnExcess: func() { excesses++ }})
	defer m.Close()
	held := store.Rule{Subject: []byte("u"), Return: 1, Method: store.Hold, Time: 60, Count: 100, Weight: 1}
	estimate := store.Rule{Subject: []byte("u"), Return: 2, Method: store.Count, Time: 60, Count: 100, Weight: 1, Settle: 120}
	var first string
	for i := range 3 {
		a := takeAt(t, m, 1000, estimate)
		if a.Receipt == "" {
			t.Fatalf("take %d has no receipt", i)
		}
		first = a.Receipt
	}
	if a := takeAt(t, m, 1000, held); a.Sets[0].Decider != 0 || a.Sets[0].Retry != store.Never || a.Sets[0].Remaining != 100 {
		t.Errorf("a hold beyond the bound: %+v, want a refusal", a.Sets[0])
	}
	if a := takeAt(t, m, 1000, estimate); a.Sets[0].Decider != -1 || a.Receipt != "" || a.Undo != nil {
		t.Errorf("an estimate beyond the bound: %+v, want it admitted without a receipt", a)
	}
	if excesses != 2 {
		t.Errorf("%d excesses are reported, want 2", excesses)
	}
	if !m.settleAt(t, 1001, first) {
		t.Error("a receipt was lost")
	}
	if a := takeAt(t, m, 1001, held); a.Sets[0].Decider != -1 || a.Receipt == "" {
		t.Errorf("a hold after a settlement: %+v, want it admitted", a.Sets[0])
	}
	if open, expired := m.Receipts(); open != 3 || expired != 0 {
		t.Errorf("%d receipts are open and %d expired, want 3 and 0", open, expired)
	}
	later := int64(1000 + 120_000 + linger)
	if a := takeAt(t, m, later, held); a.Sets[0].Decider != -1 {
		t.Errorf("a hold after receipts expired: %+v, want it admitted", a.Sets[0])
	}
	if open, expired := m.Receipts(); open != 1 || expired != 3 {
		t.Errorf("%d receipts are open and %d expired, want 1 and 3", open, expired)
	}
	m.Clear()
	if open, _ := m.Receipts(); open != 0 {
		t.Errorf("%d receipts are open after Clear, want 0", open)
	}
	if excesses != 2 {
		t.Errorf("%d excesses are reported, want no more than 2", excesses)
	}
}

// TestReceiptsOfABrowseReserveNothing checks that operations without receipts leave no
// places taken.
func TestReceiptsOfABrowseReserveNothing(t *testing.T) {
	m := New(Options{})
	defer m.Close()
	held := store.Rule{Subject: []byte("u"), Return: 1, Method: store.Hold, Time: 60, Count: 0, Weight: 1}
	for op := store.Take; op <= store.Reset; op++ {
		p := &store.Plan{Op: op, Now: 1000, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{held}}}}
		if err := m.Evaluate(context.Background(), p, new(store.Answers)); err != nil {
			t.Fatal(err)
		}
	}
	if open, _ := m.Receipts(); open != 0 {
		t.Errorf("%d receipts are open, want 0", open)
	}
}

// TestResetHoldsAreNotRenewed checks that a renewal after a reset holds nothing, and keeps
// the receipt no longer.
func TestResetHoldsAreNotRenewed(t *testing.T) {
	m := New(Options{})
	defer m.Close()
	held := store.Rule{Subject: []byte("u"), Return: 1, Method: store.Hold, Time: 1, Count: 2, Weight: 1}
	receipt := takeAt(t, m, 1000, held).Receipt
	p := &store.Plan{Op: store.Reset, Now: 1001, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{held}}}}
	if err := m.Evaluate(context.Background(), p, new(store.Answers)); err != nil {
		t.Fatal(err)
	}
	if got, err := m.Renew(context.Background(), &store.Renewal{Receipt: receipt, Now: 1500}); err != nil || !got.Known {
		t.Errorf("renewed: %+v, %v; want it known", got, err)
	}
	if m.settleAt(t, 2000, receipt) {
		t.Error("the renewal kept the receipt, although nothing was held")
	}
}

// TestChargesMakeCounters settles an outcome whose counter does not exist, or is shared
// by identities beyond the bound.
func TestChargesMakeCounters(t *testing.T) {
	m := New(Options{MaxIdentities: shards})
	defer m.Close()
	for i := range 1000 {
		r := store.Rule{Subject: []byte{byte(i), byte(i >> 8)}, Return: 1, Method: store.Leak, Time: 60, Count: 3, Weight: 1, Settle: 60, Outcome: true}
		for range 2 {
			a := takeAt(t, m, 1000, r)
			if a.Sets[0].Decider >= 0 {
				break // the shared counter is used up
			}
			if _, err := m.Settle(context.Background(), &store.Settlement{Receipt: a.Receipt, Now: 1001, Zone: time.UTC, Judge: charging{}}); err != nil {
				t.Fatal(err)
			}
		}
		if hits := takeAt(t, m, 1001, r).Sets[0]; hits.Limit-hits.Remaining < 2 {
			t.Fatalf("identity %d: %+v, want at least 2 hits", i, hits)
		}
	}
	if m.Shared() == 0 {
		t.Error("no counter was shared")
	}
}

// charging charges every outcome.
type charging struct{}

func (charging) Judge(int64, store.Method) store.Use { return store.Use{Concerns: true, Charge: true} }

// At the bound, a call that looks for a place does not wait for shards in which no receipt
// has expired.
func TestFullReceiptsLockNoShard(t *testing.T) {
	m := New(Options{MaxReceipts: 1})
	defer m.Close()
	if a := takeAt(t, m, 1000, store.Rule{Subject: []byte("u"), Return: 1, Method: store.Hold, Time: 60, Count: 9, Weight: 1}); a.Receipt == "" {
		t.Fatal("no receipt")
	}
	m.receipts.reserve(1000) // notes that the other shards are empty
	for i := range m.receipts.shards {
		m.receipts.shards[i].Lock()
		defer m.receipts.shards[i].Unlock()
	}
	done := make(chan bool, 1)
	go func() { done <- m.receipts.reserve(1001) }()
	select {
	case reserved := <-done:
		if reserved {
			t.Error("a place was found beyond the bound")
		}
	case <-time.After(10 * time.Second):
		t.Error("the call waits for a lock")
	}
}
