package store

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// held is a way to Redis on which every batch is held until it is let go.
type held struct {
	batches *batches
	sent    chan int // how many calls a batch has that leaves
	let     chan struct{}
	clock   atomic.Int64 // ms
	callers sync.WaitGroup
}

func newHeld(batching Batching) *held {
	h := &held{sent: make(chan int), let: make(chan struct{})}
	h.batches = newBatches(batching, time.Minute, func(_ context.Context, bundles []*bundle) {
		n := 0
		for _, b := range bundles {
			n += len(b.calls)
		}
		h.sent <- n
		<-h.let
		for _, b := range bundles {
			b.fail(nil)
		}
	})
	h.batches.now = func() time.Time { return time.UnixMilli(h.clock.Load()) }
	return h
}

// call makes n calls, and waits until they are under way or wait: so many.
func (h *held) call(t *testing.T, n, waiting int) {
	t.Helper()
	for range n {
		h.callers.Go(func() {
			if _, err := h.batches.run(context.Background(), new(call)); err != nil {
				t.Error(err)
			}
		})
	}
	for {
		h.batches.mu.Lock()
		now := len(h.batches.waiting)
		h.batches.mu.Unlock()
		if now == waiting {
			return
		}
		runtime.Gosched()
	}
}

func (h *held) wantSent(t *testing.T, want int) {
	t.Helper()
	if got := <-h.sent; got != want {
		t.Errorf("a batch of %d left; want %d", got, want)
	}
}

func TestASecondBatchLeavesWhenItIsFull(t *testing.T) {
	h := newHeld(BatchScript)
	h.call(t, 1, 0)
	h.wantSent(t, 1)
	h.call(t, maxBatch-1, maxBatch-1)
	h.call(t, 1, 0)
	h.wantSent(t, maxBatch)
	h.call(t, 3*maxBatch, 3*maxBatch) // there is no third one
	h.let <- struct{}{}
	h.wantSent(t, maxBatch)
	h.let <- struct{}{}
	h.wantSent(t, maxBatch)
	h.let <- struct{}{}
	h.wantSent(t, maxBatch)
	close(h.let)
	h.callers.Wait()
	h.batches.close()
}

func TestASecondBatchLeavesWhenTheFirstIsOverdue(t *testing.T) {
	h := newHeld(BatchScript)
	h.call(t, 1, 0)
	h.wantSent(t, 1)
	h.clock.Add(overdue.Milliseconds())
	h.call(t, 1, 1)
	h.clock.Add(1)
	h.call(t, 1, 0)
	h.wantSent(t, 2)
	h.call(t, 1, 1)
	h.let <- struct{}{}
	h.wantSent(t, 1)
	close(h.let)
	h.callers.Wait()
	h.batches.close()
}

func TestWithoutBatchesNobodyWaits(t *testing.T) {
	h := newHeld(BatchOff)
	for range 5 {
		h.call(t, 1, 0)
		h.wantSent(t, 1)
	}
	close(h.let)
	h.callers.Wait()
	h.batches.close()
}
