package redis

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// held is a Batcher whose batches wait until the test releases them.
type held struct {
	batches *Batcher
	sent    chan int      // the number of calls of each batch that leaves
	let     chan struct{} // releases one batch per element, all when closed
	clock   atomic.Int64  // ms
	watch   ticking
	callers sync.WaitGroup
}

// carrying is a function that carries out bundles.
type carrying func(context.Context, []*bundle)

func (f carrying) exchange(ctx context.Context, bundles []*bundle) { f(ctx, bundles) }

// ticking is a timer that fires when the test calls goesOff.
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

// goesOff fires the timer, which must be set to left.
func (k *ticking) goesOff(t *testing.T, left time.Duration) {
	t.Helper()
	k.mu.Lock()
	runs, got := k.runs, k.left
	k.runs = false
	k.mu.Unlock()
	if !runs || got != left {
		t.Fatalf("the timer runs: %v, for %v; want it to run for %v", runs, got, left)
	}
	k.does()
}

func newHeld(batching Batching) *held {
	h := &held{sent: make(chan int), let: make(chan struct{})}
	h.batches = newBatcher(batching, time.Minute, carrying(func(_ context.Context, bundles []*bundle) {
		n := 0
		for _, b := range bundles {
			n += len(b.calls)
		}
		h.sent <- n
		<-h.let
		for _, b := range bundles {
			b.fail(nil)
		}
	}))
	h.batches.now = func() time.Time { return time.UnixMilli(h.clock.Load()) }
	h.batches.after = func(d time.Duration, f func()) timer {
		h.watch.does = f
		h.watch.Reset(d)
		return &h.watch
	}
	return h
}

// call starts n calls and waits until the given number of calls wait for a batch.
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

// wait waits until the given number of calls wait for a batch.
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

// land releases the batch that left first, and waits until the given number of
// batches are under way.
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

// flyTwo sends a batch of one call, and another one because the first is overdue.
func (h *held) flyTwo(t *testing.T) {
	t.Helper()
	h.call(t, 1, 0)
	h.wantSent(t, 1)
	h.call(t, 1, 1)
	h.clock.Add(overdue.Milliseconds())
	h.watch.goesOff(t, overdue)
	h.wantSent(t, 1)
}

// end releases all batches and waits for all callers.
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

func TestSecondBatchLeavesWhenFull(t *testing.T) {
	h := newHeld(BatchScript)
	h.call(t, 1, 0)
	h.wantSent(t, 1)
	h.call(t, maxBatch-1, maxBatch-1)
	h.call(t, 1, 0)
	h.wantSent(t, maxBatch)
	h.call(t, 3*maxBatch, 3*maxBatch) // no third batch leaves
	h.let <- struct{}{}
	h.wantSent(t, maxBatch)
	h.let <- struct{}{}
	h.wantSent(t, maxBatch)
	h.let <- struct{}{}
	h.wantSent(t, maxBatch)
	h.end()
}

// TestSecondBatchLeavesWhenFirstIsOverdue checks that a hanging batch does not delay
// other calls for long, even if no further calls arrive.
func TestSecondBatchLeavesWhenFirstIsOverdue(t *testing.T) {
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
	h.call(t, 1, 1) // no third batch leaves
	h.let <- struct{}{}
	h.wantSent(t, 1)
	h.end()
}

// TestIdleSenderDelaysNoBatch checks that a batch is overdue from the time when it
// left, not from the time when a sender found nothing to send.
func TestIdleSenderDelaysNoBatch(t *testing.T) {
	h := newHeld(BatchScript)
	h.flyTwo(t)
	h.land(1)
	h.clock.Add(overdue.Milliseconds())
	h.call(t, 1, 1)
	h.watch.goesOff(t, 0)
	h.wantSent(t, 1)
	h.clock.Add(overdue.Milliseconds())
	h.land(1) // the previous batch: its sender finds nothing to send
	h.call(t, 1, 1)
	h.watch.goesOff(t, 0)
	h.wantSent(t, 1)
	h.end()
}

// TestBatchEndsWithItsLastCaller checks that a batch has the time of its callers,
// not the budget: two hanging batches delay all other calls.
func TestBatchEndsWithItsLastCaller(t *testing.T) {
	const forever, ms = -1, time.Millisecond
	for _, c := range []struct {
		budget  time.Duration
		callers []time.Duration // the time that each caller has
		want    time.Duration
	}{
		{10 * time.Second, []time.Duration{150 * ms, 200 * ms, 100 * ms}, 200 * ms},
		{10 * time.Second, []time.Duration{150 * ms, forever}, 10 * time.Second},
		{10 * time.Second, []time.Duration{ms}, batchTime}, // so that the connection survives
		{100 * ms, []time.Duration{time.Second}, 100 * ms},
		{2 * ms, []time.Duration{ms}, 2 * ms},
	} {
		begin, got := time.Now(), time.Duration(0)
		b := newBatcher(BatchScript, c.budget, carrying(func(ctx context.Context, _ []*bundle) {
			end, _ := ctx.Deadline()
			got = end.Sub(begin)
		}))
		b.now = func() time.Time { return begin }
		for _, left := range c.callers {
			one := new(Call)
			if left != forever {
				one.until = begin.Add(left)
			}
			b.waiting = append(b.waiting, one)
		}
		b.flying = 1
		b.sendAll(new(sender))
		if got != c.want {
			t.Errorf("budget %v, callers with %v: the batch has %v; want %v", c.budget, c.callers, got, c.want)
		}
		b.Close()
	}
}

// TestCallsLostTogetherShareATrip checks that the calls of a batch report one trip,
// and calls that were never sent the trip of the last batch: together they are one
// failure of Redis.
func TestCallsLostTogetherShareATrip(t *testing.T) {
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
			t.Errorf("call %d reports trip %d; want %d", i, got, want)
		}
	}
}

// TestCheckPassesHangingBatches checks that a check does not wait for hanging
// batches.
func TestCheckPassesHangingBatches(t *testing.T) {
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
		t.Error("a closed batcher sent a call")
	}
}

// TestTimerEndsWithTheBatcher closes a batcher before and while its timer fires.
func TestTimerEndsWithTheBatcher(t *testing.T) {
	for _, late := range []bool{false, true} {
		h := newHeld(BatchScript)
		h.call(t, 1, 0)
		h.wantSent(t, 1)
		h.call(t, 1, 1)
		if late { // it fires while the batcher is closed
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
			t.Error("the timer still runs")
		}
	}
}

func TestUnbatchedCallsDoNotWait(t *testing.T) {
	h := newHeld(BatchOff)
	for range 5 {
		h.call(t, 1, 0)
		h.wantSent(t, 1)
	}
	h.end()
}

// TestPanicOfALoneCallLeavesTheBatcherUsable sends a call that panics, which its
// caller recovers. The calls that wait behind it are sent, the next call goes alone
// again, and Close returns.
func TestPanicOfALoneCallLeavesTheBatcherUsable(t *testing.T) {
	h := newHeld(BatchScript)
	before := h.batches.carrier
	h.batches.carrier = carrying(func(_ context.Context, _ []*bundle) {
		h.batches.carrier = before // no other call is sent meanwhile
		h.sent <- 1
		<-h.let
		panic("on its way")
	})
	h.callers.Go(func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic did not reach the caller")
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

// TestCallsJoinTheFirstAfterABatch checks that the first call after a batch of several lets
// others join it, and that a caller without company does not wait for any.
func TestCallsJoinTheFirstAfterABatch(t *testing.T) {
	h := newHeld(BatchScript)
	yields, joining := 0, 0
	h.batches.yield = func() {
		yields++
		h.call(t, joining, joining)
	}
	lone := func() {
		h.call(t, 1, 0)
		h.wantSent(t, 1)
		h.land(0)
	}
	lone()
	lone()
	if yields != 0 {
		t.Errorf("a lone caller yielded %d times", yields)
	}
	h.call(t, 1, 0)
	h.wantSent(t, 1)
	h.call(t, 2, 2)
	h.let <- struct{}{}
	h.wantSent(t, 2)
	h.land(0)
	joining = 3
	h.call(t, 1, 0)
	h.wantSent(t, 4)
	h.land(0)
	joining = 0
	lone() // the last batch had several calls, but no call joins this one
	lone()
	if yields != 2 {
		t.Errorf("%d calls yielded after batches of several; want 2", yields)
	}
	h.end()
}
