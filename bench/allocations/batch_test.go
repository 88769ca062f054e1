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

// measureConcurrent returns the allocations per call of the store alone with 64
// concurrent callers, so that most calls are batched. The size of the batches
// depends slightly on the machine: round the result before comparing it.
func measureConcurrent(t *testing.T) float64 {
	t.Helper()
	const callers = 64
	r := storetest.StartServer(t).Open(t)
	begin := make([]chan struct{}, callers)
	var answered, ended sync.WaitGroup
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
				answered.Done()
			}
		})
	}
	round := func() {
		answered.Add(callers)
		for _, one := range begin {
			one <- struct{}{}
		}
		answered.Wait()
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
