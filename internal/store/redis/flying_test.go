package redis

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
	batches *Batcher
	sent    chan int // how many calls a batch has that leaves
	let     chan struct{}
	clock   atomic.Int64 // ms
	watch   ticking
	callers sync.WaitGroup
}

// ticking is a timer that goes off when its test says so.
type ticking struct {
	mu   sync.Mutex
	runs bool
	left time.Duration
	does func()
}

func (k *ticking) Reset(d time.Duration) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	ran := k.runs
	k.runs, k.left = true, d
	return ran
}

func (k *ticking) Stop() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	ran := k.runs
	k.runs = false
	return ran
}

// goesOff has the timer go off, which is to have so much time left.
func (k *ticking) goesOff(t *testing.T, left time.Duration) {
	t.Helper()
	k.mu.Lock()
	runs, got := k.runs, k.left
	k.runs = false
	k.mu.Unlock()
	if !runs || got != left {
		t.Fatalf("the watch runs: %v, for %v; want it to run for %v", runs, got, left)
	}
	k.does()
}

func newHeld(batching Batching) *held {
	h := &held{sent: make(chan int), let: make(chan struct{})}
	h.batches = newBatcher(batching, time.Minute, func(_ context.Context, bundles []*bundle) {
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
	h.batches.after = func(d time.Duration, f func()) timer {
		h.watch.does = f
		h.watch.Reset(d)
		return &h.watch
	}
	return h
}

// call makes n calls, and waits until they are under way or wait: so many.
func (h *held) call(t *testing.T, n, waiting int) {
	t.Helper()
	for range n {
		h.callers.Go(func() {
			if _, err := h.batches.Send(context.Background(), new(Call)); err != nil {
				t.Error(err)
			}
		})
	}
	h.wait(waiting)
}

// wait waits until so many calls wait for a batch.
func (h *held) wait(waiting int) {
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

// land lets the batch go that left first, and waits until so many are under way.
func (h *held) land(flying int) {
	h.let <- struct{}{}
	for {
		h.batches.mu.Lock()
		now := h.batches.flying
		h.batches.mu.Unlock()
		if now == flying {
			return
		}
		runtime.Gosched()
	}
}

// flyTwo has a batch of one call leave, and another one since the first is
// overdue.
func (h *held) flyTwo(t *testing.T) {
	t.Helper()
	h.call(t, 1, 0)
	h.wantSent(t, 1)
	h.call(t, 1, 1)
	h.clock.Add(overdue.Milliseconds())
	h.watch.goesOff(t, overdue)
	h.wantSent(t, 1)
}

// end lets every batch go, and waits for all callers.
func (h *held) end() {
	close(h.let)
	h.callers.Wait()
	h.batches.Close()
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
	h.end()
}

// A batch that hangs holds up nobody for long, even where nobody comes any more.
func TestASecondBatchLeavesWhenTheFirstIsOverdue(t *testing.T) {
	h := newHeld(BatchScript)
	h.call(t, 1, 0)
	h.wantSent(t, 1)
	h.clock.Add(1)
	h.call(t, 3, 3)
	h.clock.Add(overdue.Milliseconds() - 2)
	h.watch.goesOff(t, overdue-time.Millisecond)
	h.call(t, 1, 4) // the first is not overdue yet
	h.clock.Add(1)
	h.watch.goesOff(t, time.Millisecond)
	h.wantSent(t, 4)
	h.call(t, 1, 1) // there is no third one
	h.let <- struct{}{}
	h.wantSent(t, 1)
	h.end()
}

// A batch is overdue by when it left, not by when a sender found nothing to send.
func TestASenderWithoutCallsPutsNothingOff(t *testing.T) {
	h := newHeld(BatchScript)
	h.flyTwo(t)
	h.land(1)
	h.clock.Add(overdue.Milliseconds())
	h.call(t, 1, 1)
	h.watch.goesOff(t, 0)
	h.wantSent(t, 1)
	h.clock.Add(overdue.Milliseconds())
	h.land(1) // the one before: its sender finds nothing
	h.call(t, 1, 1)
	h.watch.goesOff(t, 0)
	h.wantSent(t, 1)
	h.end()
}

// A batch lives for those who wait for it, not for the budget: two that hang
// hold up all others.
func TestABatchEndsWithTheLastOfItsCallers(t *testing.T) {
	const forever, ms = -1, time.Millisecond
	for _, c := range []struct {
		budget  time.Duration
		callers []time.Duration // how long each has
		want    time.Duration
	}{
		{10 * time.Second, []time.Duration{150 * ms, 200 * ms, 100 * ms}, 200 * ms},
		{10 * time.Second, []time.Duration{150 * ms, forever}, 10 * time.Second},
		{10 * time.Second, []time.Duration{ms}, batchTime}, // for the sake of its connection
		{100 * ms, []time.Duration{time.Second}, 100 * ms},
		{2 * ms, []time.Duration{ms}, 2 * ms},
	} {
		begin, got := time.Now(), time.Duration(0)
		b := newBatcher(BatchScript, c.budget, func(ctx context.Context, _ []*bundle) {
			end, _ := ctx.Deadline()
			got = end.Sub(begin)
		})
		b.now = func() time.Time { return begin }
		for _, left := range c.callers {
			one := new(Call)
			if left != forever {
				one.until = begin.Add(left)
			}
			b.waiting = append(b.waiting, one)
		}
		b.flying = 1
		b.running.Add(1)
		b.sendAll()
		if got != c.want {
			t.Errorf("budget %v, callers with %v: the batch has %v; want %v", c.budget, c.callers, got, c.want)
		}
		b.Close()
	}
}

// The calls of a batch are known by it, and those that wait in vain by the last
// one: together they say no more of Redis than that.
func TestCallsThatAreLostTogetherShareARoundTrip(t *testing.T) {
	h := newHeld(BatchScript)
	ctx, leave := context.WithCancel(context.Background())
	var calls []*Call
	var gone sync.WaitGroup
	start := func(ctx context.Context, group *sync.WaitGroup, n, waiting int) {
		for range n {
			c := new(Call)
			calls = append(calls, c)
			group.Go(func() { _, _ = h.batches.Send(ctx, c) })
		}
		h.wait(waiting)
	}
	start(context.Background(), &h.callers, 1, 0)
	h.wantSent(t, 1)
	start(context.Background(), &h.callers, 3, 3)
	h.clock.Add(overdue.Milliseconds())
	h.watch.goesOff(t, overdue)
	h.wantSent(t, 3)
	start(ctx, &gone, 2, 2)
	leave()
	gone.Wait()
	h.end()
	for i, want := range []uint64{1, 2, 2, 2, 2, 2} {
		if got := calls[i].Trip; got != want {
			t.Errorf("call %d is one of round trip %d; want %d", i, got, want)
		}
	}
}

// Who looks whether Redis is there does not wait for batches that hang.
func TestALookPassesTheBatches(t *testing.T) {
	h := newHeld(BatchScript)
	h.flyTwo(t)
	h.callers.Go(func() {
		if err := h.batches.SendAlone(context.Background(), new(Call)); err != nil {
			t.Error(err)
		}
	})
	h.wantSent(t, 1)
	h.end()
	if err := h.batches.SendAlone(context.Background(), new(Call)); err == nil {
		t.Error("batches that are closed were asked")
	}
}

// The watch ends with its batches, whether it has gone off by then or not.
func TestTheWatchEndsWithItsBatches(t *testing.T) {
	for _, late := range []bool{false, true} {
		h := newHeld(BatchScript)
		h.call(t, 1, 0)
		h.wantSent(t, 1)
		h.call(t, 1, 1)
		if late { // it is about to look when the batches are closed
			h.watch.Stop()
		}
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			h.batches.Close()
		}()
		<-h.batches.ctx.Done()
		if late {
			h.watch.does()
		}
		h.let <- struct{}{}
		h.wantSent(t, 1)
		close(h.let)
		h.callers.Wait()
		<-closed
		if h.watch.Stop() {
			t.Error("the watch runs still")
		}
	}
}

func TestWithoutBatchesNobodyWaits(t *testing.T) {
	h := newHeld(BatchOff)
	for range 5 {
		h.call(t, 1, 0)
		h.wantSent(t, 1)
	}
	h.end()
}

// TestAPanicOfALoneCallLeavesNothingBehind has a call panic on its way, which its
// caller survives: those that wait behind it are sent, the next one goes alone
// again, and close ends.
func TestAPanicOfALoneCallLeavesNothingBehind(t *testing.T) {
	h := newHeld(BatchScript)
	send := h.batches.send
	h.batches.send = func(_ context.Context, _ []*bundle) {
		h.batches.send = send // nobody else sends meanwhile
		h.sent <- 1
		<-h.let
		panic("on its way")
	}
	h.callers.Go(func() {
		defer func() {
			if recover() == nil {
				t.Error("the caller is not told of the panic")
			}
		}()
		_, _ = h.batches.Send(context.Background(), new(Call))
	})
	h.wantSent(t, 1)
	h.call(t, 2, 2)
	h.let <- struct{}{}
	h.wantSent(t, 2)
	h.land(0)
	h.call(t, 1, 0)
	h.wantSent(t, 1)
	h.end()
}
