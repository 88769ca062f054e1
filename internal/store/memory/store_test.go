package memory_test

import (
	"testing"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/store/storetest/machine"
)

func TestBehavior(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		m := memory.New(memory.Options{})
		t.Cleanup(m.Close)
		return m
	})
}

// TestMemoryAnswersAsTheModel compares the answers to random plans with the answers of the
// model.
func TestMemoryAnswersAsTheModel(t *testing.T) {
	dialogues := 10_000
	if *long {
		dialogues = 100_000
	}
	machine.Dialogues(t, dialogues)
	machine.Compare(t, func() (store.Store, func()) {
		m := memory.New(memory.Options{})
		return m, m.Close
	})
}

func TestReceipts(t *testing.T) {
	storetest.RunReceipts(t, func(t *testing.T) store.Store {
		m := memory.New(memory.Options{})
		t.Cleanup(m.Close)
		return m
	})
}

// TestReceiptsAsInTheModel compares receipts that are settled late, twice, never and out
// of order with those of the model.
func TestReceiptsAsInTheModel(t *testing.T) {
	dialogues := 100_000
	if !*long {
		dialogues = 3_000
		machine.Seed(t, 1)
	}
	machine.Dialogues(t, dialogues)
	machine.CompareReceipts(t, func() (store.Store, func()) {
		m := memory.New(memory.Options{})
		return m, m.Close
	})
}
