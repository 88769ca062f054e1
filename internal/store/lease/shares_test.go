package lease

import (
	"context"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/store/storetest/machine"
)

// lending is three instances that hold parts of limits, of which gateways share the rest.
type lending struct {
	*redis.Store
	fleet *fleet
}

// Evaluate lets one of the instances take.
func (l *lending) Evaluate(ctx context.Context, p *store.Plan, a *store.Answers) error {
	f := l.fleet
	f.back += max(f.now-p.Now, 0)
	f.now = p.Now
	i := rapid.IntRange(0, len(f.holders)-1).Draw(f.rt, "holder")
	h := f.holders[i]
	switch rapid.IntRange(0, 19).Draw(f.rt, "before") {
	case 0, 1, 2:
		h.runNext()
	case 3:
		h.Sweep()
	case 4:
		if rapid.Bool().Draw(f.rt, "drain") {
			h.Close() //nolint:contextcheck // it gives back what it holds, whoever calls
		}
		h = f.open()
		f.holders[i] = h
	}
	return h.Evaluate(ctx, p, a)
}

// TestPartsAndSharesExceedNoLimit lets gateways share limits with each other and with
// instances that hold parts of them. The clocks of instances run at other speeds than the clock
// of the store, and go on when that jumps back.
func TestPartsAndSharesExceedNoLimit(t *testing.T) {
	server := storetest.StartServer(t)
	n := 100
	if *long {
		n = 10_000
	}
	machine.Dialogues(t, n)
	shared := server.Open(t, func(o *redis.Options) { o.Refusals = -1 })
	total, assigned := 0, 0
	var spent int64
	rapid.Check(t, func(rt *rapid.T) {
		total++
		// Requests for parts happen at their instants: the depth keeps others out.
		f := &fleet{rt: rt, redis: shared, now: beginning, lost: map[string]int64{}, flying: map[string]int64{}, depth: 1}
		for range 3 {
			f.holders = append(f.holders, f.open())
		}
		assigned += machine.ShareDialogue(rt, &lending{shared, f}, beginning, "shares"+strconv.Itoa(total)).Assigned
		for _, h := range f.holders {
			spent += h.Stats().Spent
		}
	})
	if spent == 0 || assigned == 0 {
		t.Errorf("%d hits from parts, and %d assignments; want both", spent, assigned)
	}
	t.Logf("%d dialogues: %d hits from parts beside %d assignments", total, spent, assigned)
}

// asked is an instance that holds parts of limits.
type asked struct {
	*redis.Store
	instance *Store
}

func (a *asked) Evaluate(ctx context.Context, p *store.Plan, to *store.Answers) error {
	return a.instance.Evaluate(ctx, p, to)
}

// TestSharesAreUsedBesideParts has two gateways, and an instance that holds parts, get more
// requests than the limit admits, 16 at a time. The parts leave the gateways buckets that hold
// as many.
func TestSharesAreUsedBesideParts(t *testing.T) {
	shared := storetest.StartServer(t).Open(t, func(o *redis.Options) { o.Refusals = -1 })
	rule := store.Rule{Subject: []byte("a"), Return: 1, Method: store.Token, Time: 1, Count: 600, Burst: 1200, Lease: 200, Weight: 1}
	var f *machine.Shares
	instance := New(shared, shared, Options{
		Clock: func() time.Duration { return time.Duration(f.Now-beginning+1000) * time.Millisecond },
		Now:   func() int64 { return f.Now },
		Run:   func(request func()) { request() },
	})
	f = machine.NewShares(&asked{shared, instance}, beginning, []store.Rule{rule}, 2, func() int64 { return 2 }, t.Fatalf)
	run := func(seconds int64) float64 {
		before, end := f.Admitted, f.Now+seconds*1000
		for i := 0; f.Now < end; i++ {
			f.Ask(0, 16)
			f.Ask(1, 16)
			f.Take(-1, 16)
			f.Pass(50)
			if i%5 == 0 {
				instance.Sweep()
			}
		}
		return float64(f.Admitted-before) / float64(600*seconds)
	}
	t.Logf("at first %.3f of the limit is used", run(10))
	if used := run(20); used < 0.9 {
		t.Errorf("%.3f of the limit is used; want 0.9 at least", used)
	}
	if spent := instance.Stats().Spent; spent == 0 {
		t.Error("nothing is spent from parts")
	}
}
