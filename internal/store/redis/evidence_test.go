package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// TestEvidence checks which timeouts are evidence against Redis: those of round
// trips that were silent for long enough while this process was punctual.
func TestEvidence(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name   string
		budget time.Duration
		sent   bool          // the call itself was sent
		waited time.Duration // since the batch left
		late   time.Duration // of the timers meanwhile
		heard  bool          // another batch was answered meanwhile
		want   store.Health
	}{
		{"silent", 100 * ms, true, 15 * ms, 0, false, store.Failed},
		{"silent, for a caller with 10 ms", 100 * ms, true, 5 * ms, ms, false, store.Failed},
		{"silent, with a small budget", 2 * ms, true, 2 * ms, 0, false, store.Failed},
		{"sent at the end of its time", 100 * ms, true, 3 * ms, 0, false, store.Starved},
		{"without a CPU", 100 * ms, true, 15 * ms, 12 * ms, false, store.Starved},
		{"silent for long, with few CPUs", 100 * ms, true, 100 * ms, 90 * ms, false, store.Failed},
		{"behind a silent batch", 100 * ms, false, 15 * ms, 0, false, store.Failed},
		{"behind one that has just left", 100 * ms, false, 3 * ms, 0, false, store.Starved},
		{"behind one, without a CPU", 100 * ms, false, 15 * ms, 12 * ms, false, store.Starved},
		{"behind one of several that are answered", 100 * ms, false, 15 * ms, 0, true, store.Starved},
		{"sent on a silent connection of several", 100 * ms, true, 15 * ms, 0, true, store.Starved},
		{"sent on one that is silent for long", 100 * ms, true, 60 * ms, 0, true, store.Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			now, late := time.Unix(0, 0), 7*time.Hour // that of earlier calls does not matter
			b := newBatcher(BatchScript, c.budget, nil)
			b.now = func() time.Time { return now }
			b.late = func() time.Duration { return late }
			b.depart()
			one := &Call{}
			if c.sent {
				one.state.Store(callIsSent)
				one.left = b.left
			}
			if c.heard {
				now = now.Add(ms)
				b.arrived(b.left)
			}
			now, late = b.left.at.Add(c.waited), late+c.late
			e := &Evaluator{budget: c.budget}
			if got := e.Judge(b.withdraw(one, context.DeadlineExceeded), 15*ms); got != c.want {
				t.Errorf("a caller whose time ends: %v; want %v", got, c.want)
			}
			if !c.sent {
				return
			}
			one.err = context.DeadlineExceeded
			if got := e.Judge(b.explain(one), 15*ms); got != c.want {
				t.Errorf("a batch whose time ends: %v; want %v", got, c.want)
			}
		})
	}
}

// TestCallsBeyondTheirTimeAreNotQueued checks that a call is queued only if the
// queue has room and leaves it time, by the pace of earlier batches. Others are certainly
// unsent, and show nothing about Redis.
func TestCallsBeyondTheirTimeAreNotQueued(t *testing.T) {
	const ms = time.Millisecond
	now := time.Unix(0, 0)
	b, e := newBatcher(BatchScript, 100*ms, nil), &Evaluator{budget: 100 * ms}
	b.now = func() time.Time { return now }
	for _, c := range []struct {
		pace    time.Duration
		waiting int
		time    time.Duration // of the call; 0 for no end
		want    bool
	}{
		{0, 5000, ms, false}, // unknown
		{4 * ms, 0, 5 * ms, false},
		{4 * ms, 0, 3 * ms, true},
		{4 * ms, maxBatch - 1, 5 * ms, false},
		{4 * ms, maxBatch, 7 * ms, true},
		{4 * ms, 3 * maxBatch, 17 * ms, false},
		{4 * ms, 3 * maxBatch, 15 * ms, true},
		{4 * ms, 5000, 0, false},
		{0, maxWaiting - 1, 0, false},
		{0, maxWaiting, 0, true},
	} {
		b.pace, b.flying, b.waiting = c.pace, maxFlying, make([]*Call, c.waiting)
		one := new(Call)
		if c.time > 0 {
			one.until = now.Add(c.time)
		}
		_, err := b.add(one)
		if refused := errors.Is(err, redisconn.ErrUnsent); refused != c.want || refused && e.Judge(err, 100*ms) != store.Starved {
			t.Errorf("%d calls wait for batches of %v, a call has %v: %v; want refused: %v", c.waiting, c.pace, c.time, err, c.want)
		}
	}
}

func TestPaceFollowsReplies(t *testing.T) {
	now := time.Unix(0, 0)
	b := newBatcher(BatchScript, time.Second, nil)
	b.now = func() time.Time { return now }
	for range 100 {
		b.depart()
		now = now.Add(3 * time.Millisecond)
		b.arrived(b.left)
	}
	if b.pace != 3*time.Millisecond {
		t.Errorf("the pace of batches of 3 ms is %v", b.pace)
	}
}

// TestConnectionsWithoutFilesAreNoEvidence checks that connections which this process
// cannot open for lack of files or memory do not show that Redis is unreachable.
func TestConnectionsWithoutFilesAreNoEvidence(t *testing.T) {
	e := &Evaluator{budget: time.Second}
	for fault, want := range map[syscall.Errno]store.Health{
		syscall.EMFILE: store.Starved, syscall.ENFILE: store.Starved, syscall.ENOBUFS: store.Starved, syscall.ENOMEM: store.Starved,
		syscall.ECONNREFUSED: store.Unreachable, syscall.EHOSTUNREACH: store.Unreachable, syscall.EADDRNOTAVAIL: store.Unreachable,
	} {
		err := fmt.Errorf("redis: evaluate: %w", &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", fault)})
		if got := e.Judge(err, time.Second); got != want {
			t.Errorf("%v: %v, want %v", fault, got, want)
		}
	}
}
