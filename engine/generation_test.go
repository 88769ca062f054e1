package engine_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

// Former rules are released from memory, even if they decided calls with more inputs
// than later calls have.
func TestFormerGenerationIsReleased(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that pooled memory is reused
	const lines = `rule : [count] [k=+] [time=60; count=9;] [result=2; return=1]`
	gone := make(chan struct{})
	former := parse(t, withResults(lines), rules.Options{})
	runtime.AddCleanup(former.Rules[0], func(gone chan struct{}) { close(gone) }, gone)
	m := memory.New(memory.Options{})
	defer m.Close()
	e := engine.New(former, wiring.CountIn(m))
	var scratch engine.Scratch
	ask := func(sets ...engine.Input) {
		if _, err := e.Decide(t.Context(), &engine.Call{Op: engine.Take, Inputs: sets, Scratch: &scratch}); err != nil {
			t.Fatal(err)
		}
	}
	ask(input(1, "k", "a"), input(1, "k", "b"))
	e.Swap(parse(t, withResults(lines), rules.Options{}))
	for range 100 {
		ask(input(1, "k", "a"))
		runtime.GC()
		select {
		case <-gone:
			return
		case <-time.After(time.Millisecond):
		}
	}
	t.Error("the former rules are still in memory")
}
