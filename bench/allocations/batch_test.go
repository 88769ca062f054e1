//go:build !race

package allocations

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// measureTogether is what a call of the store alone allocates when 64 callers ask
// at once, so that most calls go in batches. How large these are depends on the
// machine a little: who compares it rounds.
func measureTogether(t *testing.T) float64 {
	t.Helper()
	const callers = 64
	r := storetest.StartServer(t).Open(t)
	begin := make([]chan struct{}, callers)
	var asked, ended sync.WaitGroup
	for i := range begin {
		begin[i] = make(chan struct{})
		p := &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{
			{Subject: strconv.AppendInt(nil, int64(i), 10), Return: 1, Method: store.Count, Weight: 1, Time: 3600, Count: 1 << 30},
		}}}}
		ended.Go(func() {
			var a store.Answers
			for range begin[i] {
				if err := r.Evaluate(context.Background(), p, &a); err != nil {
					t.Error(err)
				}
				asked.Done()
			}
		})
	}
	round := func() {
		asked.Add(callers)
		for _, one := range begin {
			one <- struct{}{}
		}
		asked.Wait()
	}
	round()
	got := testing.AllocsPerRun(runs/callers*10, round) / callers
	for _, one := range begin {
		close(one)
	}
	ended.Wait()
	c := r.Calls()
	t.Logf("%.2f allocations a call, of which %.1f went together", got, float64(c.Plans)/float64(c.Scripts))
	return got
}
