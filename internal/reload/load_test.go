package reload

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

// TestReloadsUnderLoad swaps generations during decisions: each answer belongs to one
// generation, and none is older than the previous answer.
func TestReloadsUnderLoad(t *testing.T) {
	const generations = 300
	b := newBench(t, ruleText(1))
	first, _, err := b.options.Files.Load()
	if err != nil {
		t.Fatal(err)
	}
	memory := memory.New(memory.Options{})
	defer memory.Close()
	e := engine.New(first, wiring.CountIn(memory))

	var stop atomic.Bool
	var callers sync.WaitGroup
	for range 2 {
		callers.Go(func() {
			newest := int64(0)
			for !stop.Load() {
				set := e.Rules()
				number := set.Rules[0].Return
				d, err := e.Decide(context.Background(), &engine.Call{Rules: set, Op: engine.Take, Inputs: []engine.Input{{
					Params: rules.MakeParams(map[string]string{"act": "a" + strconv.FormatInt(number, 10)}), Hits: 1,
				}}})
				if err != nil || d.Answers[0].Decider == nil || d.Answers[0].Decider.Return != number || number < newest {
					t.Errorf("generation %d after %d decided %+v, %v", number, newest, d, err)
					return
				}
				newest = number
			}
		})
	}
	for n := 2; n <= generations; n++ {
		b.write(t, ruleText(n))
		b.load(context.Background(), e.Swap, false)
	}
	stop.Store(true)
	callers.Wait()
	if got := b.State(); got.Generation != generations || got.Hash != e.Rules().Hash {
		t.Errorf("the state is %+v; want generation %d", got, generations)
	}
}
