package engine_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/rules"
)

// A rule of five turns per second.
const queue = `rule : [token] [k=+] [time=1; count=5; burst=1; wait=3] [result=2; return=7]`

// turn is a call that waits for its turn as long as the rule allows.
func turn(key string) *engine.Call {
	return &engine.Call{Op: engine.Take, Patience: engine.MaxWait, Inputs: []engine.Input{input(1, "k", key)}}
}

// takeTurns has n callers ask at once, and returns the times that their decisions
// took, in the order of the answers, and the number of refusals.
func takeTurns(t *testing.T, e *engine.Engine, n int, call func() *engine.Call) (took []time.Duration, refused int) {
	t.Helper()
	var mu sync.Mutex
	var callers sync.WaitGroup
	begin := time.Now()
	for range n {
		callers.Go(func() {
			d, err := e.Decide(t.Context(), call())
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Error(err)
			case !d.Allowed():
				refused++
			default:
				took = append(took, time.Since(begin).Round(time.Millisecond))
			}
		})
	}
	callers.Wait()
	return took, refused
}

func TestDecideReturnsAtTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, queue)
		took, refused := takeTurns(t, e, 10, func() *engine.Call { return turn("a") })
		if refused > 0 || len(took) != 10 {
			t.Fatalf("%d admitted, %d refused; want all of 10", len(took), refused)
		}
		for i, at := range took {
			if want := time.Duration(i) * 200 * time.Millisecond; at != want {
				t.Errorf("turn %d came after %v; want %v", i, at, want)
			}
		}
		if e.Waiting() != 0 {
			t.Errorf("%d calls wait; want none", e.Waiting())
		}
	})
}

func TestCallsWaitNoLongerThanTheyCan(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*engine.Call)
		timeout time.Duration
		refused int // of ten
	}{
		"as long as the rule":      {func(*engine.Call) {}, 0, 0},
		"no patience":              {func(c *engine.Call) { c.Patience = 0 }, 0, 9},
		"patience for two turns":   {func(c *engine.Call) { c.Patience = 400 * time.Millisecond }, 0, 7},
		"a deadline for two turns": {func(*engine.Call) {}, 410 * time.Millisecond, 7},
		"the caller waits":         {func(c *engine.Call) { c.CallerWaits = true }, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEngine(t, queue)
				refused, begin := 0, time.Now()
				var longest time.Duration
				var callers sync.WaitGroup
				var mu sync.Mutex
				for range 10 {
					callers.Go(func() {
						ctx := t.Context()
						if c.timeout > 0 {
							var cancel context.CancelFunc
							ctx, cancel = context.WithTimeout(ctx, c.timeout)
							defer cancel()
						}
						call := turn("a")
						c.change(call)
						d, err := e.Decide(ctx, call)
						mu.Lock()
						defer mu.Unlock()
						if err != nil {
							t.Error(err)
							return
						}
						if !d.Allowed() {
							refused++
							if d.Wait != 0 || d.Waiter != nil {
								t.Errorf("a refusal has a wait of %v by %v", d.Wait, d.Waiter)
							}
						}
						if d.Wait > 0 && (d.Waiter == nil || d.Waiter.Return != 7) {
							t.Errorf("the rule behind the wait is %v", d.Waiter)
						}
						longest = max(longest, d.Wait)
					})
				}
				callers.Wait()
				if refused != c.refused {
					t.Errorf("%d refused; want %d", refused, c.refused)
				}
				if name == "only told" {
					if took := time.Since(begin); took != 0 || longest != 1800*time.Millisecond {
						t.Errorf("told %v after %v; want 1.8s at once", longest, took)
					}
				}
			})
		})
	}
}

func TestCallThatLeavesGivesItsTurnBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, queue)
		if d, err := e.Decide(t.Context(), turn("a")); err != nil || !d.Allowed() {
			t.Fatal(d, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var leaver sync.WaitGroup
		leaver.Go(func() {
			if _, err := e.Decide(ctx, turn("a")); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v; want the context's", err)
			}
		})
		synctest.Wait()
		if e.Waiting() != 1 {
			t.Errorf("%d calls wait; want 1", e.Waiting())
		}
		cancel()
		leaver.Wait()
		d, err := e.Decide(t.Context(), turn("a"))
		if err != nil || !d.Allowed() || d.Wait != 200*time.Millisecond {
			t.Errorf("the next call waits for %v, %v; want the turn that was given back, 200ms", d.Wait, err)
		}
	})
}

func TestWaitingCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Int64
		e := newEngineWith(t, queue+"\nrule : [token] [j=+] [time=1; count=5; burst=1; wait=3] [result=2; return=8]",
			engine.WithMaxWaiting(8), engine.ObserveTooManyWaiting(func() { full.Add(1) }))
		took, refused := takeTurns(t, e, 10, func() *engine.Call { return turn("a") })
		if len(took) < 4 || len(took) > 5 || refused != 10-len(took) {
			t.Errorf("%d admitted, %d refused; want at most half of 8 to wait", len(took), refused)
		}
		if full.Load() < int64(refused) {
			t.Errorf("a full queue is reported %d times; want %d", full.Load(), refused)
		}
	})
}

// A flood of calls on one queue waits within the bounds: half of them for the rule. All
// others are refused at once, and nothing is left over.
func TestFloodOfWaitingCallsIsBounded(t *testing.T) {
	const calls, most = 100_000, 10_000
	synctest.Test(t, func(t *testing.T) {
		e := newEngineWith(t, `rule : [token] [k=+] [time=1; count=1000; burst=1; wait=60] [result=2; return=7]`, engine.WithMaxWaiting(most))
		took, refused := takeTurns(t, e, calls, func() *engine.Call { return turn("a") })
		if waited := len(took); waited < most/2 || waited > most/2+1 || waited+refused != calls {
			t.Errorf("%d calls admitted, %d refused; want %d that wait, and one at once", waited, refused, most/2)
		}
		for i, at := range took {
			if want := time.Duration(i) * time.Millisecond; at != want {
				t.Fatalf("turn %d came after %v; want %v", i, at, want)
			}
		}
		if e.Waiting() != 0 {
			t.Errorf("%d calls still wait", e.Waiting())
		}
	})
}

// limit bounds the waits of one connection.
type limit struct{ places chan struct{} }

func (l limit) Enter() bool {
	select {
	case l.places <- struct{}{}:
		return true
	default:
		return false
	}
}

func (l limit) Leave() { <-l.places }

func TestWaitsOfAConnectionAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := limit{make(chan struct{}, 3)}
		var full atomic.Int64
		e := newEngineWith(t, queue, engine.WithWaitLimits(func(context.Context) engine.WaitLimit { return conn }), engine.ObserveTooManyWaiting(func() { full.Add(1) }))
		took, refused := takeTurns(t, e, 10, func() *engine.Call { return turn("a") })
		if len(took) < 3 || len(took) > 4 || refused != 10-len(took) || len(conn.places) != 0 {
			t.Errorf("%d admitted, %d refused, %d places left over; want three calls to wait", len(took), refused, len(conn.places))
		}
		if full.Load() < int64(refused) {
			t.Errorf("a full queue is reported %d times; want %d", full.Load(), refused)
		}
	})
}

func TestDrainRefusesTurnsAfterItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, queue)
		begin := time.Now()
		var callers sync.WaitGroup
		var mu sync.Mutex
		var late, admitted, refused int
		for range 10 {
			callers.Go(func() {
				d, err := e.Decide(t.Context(), turn("a"))
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err != nil:
					t.Error(err)
				case d.Allowed():
					admitted++
				default:
					refused++
					if time.Since(begin) > 100*time.Millisecond {
						late++
					}
				}
			})
		}
		time.Sleep(100 * time.Millisecond)
		e.Drain(begin.Add(time.Second))
		callers.Wait()
		if admitted != 6 || refused != 4 || late != 0 {
			t.Errorf("%d admitted, %d refused, %d of them late; want 6 turns within a second and 4 refusals at once", admitted, refused, late)
		}
		if d, err := e.Decide(t.Context(), turn("b")); err != nil || !d.Allowed() {
			t.Errorf("a call that has its turn at once: %v, %v; want it admitted during a drain", d, err)
		}
	})
}

func TestObservingDoorsDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		modes := new(engine.Modes)
		modes.Set(map[string]engine.Mode{"d": engine.ModeObserve})
		e := newEngineWith(t, queue, engine.WithModes(modes))
		begin := time.Now()
		for range 4 {
			call := turn("a")
			call.Door = "d"
			d, err := e.Decide(t.Context(), call)
			if err != nil || d.Verdict != rules.Allow || time.Since(begin) > 0 {
				t.Errorf("%v, %v after %v; want an answer at once", d, err, time.Since(begin))
			}
		}
	})
}
