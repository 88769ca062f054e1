package memory_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/memory"
)

// A copy has the hits of the original, and from then on both count alone.
func TestCopiesCountAlone(t *testing.T) {
	for _, r := range []store.Rule{
		{Method: store.Count, Time: 60, Count: 5},
		{Method: store.Base, Time: 60, Base: 2, Count: 3},
		{Method: store.Leak, Time: 60, Count: 5},
		{Method: store.Token, Time: 3600, Count: 5, Burst: 5},
	} {
		t.Run(fmt.Sprint(r.Method), func(t *testing.T) {
			now := int64(1_700_000_000_000)
			o := memory.Options{Clock: func() int64 { return now }}
			from, to := memory.New(o), memory.New(o)
			r.Subject, r.Return, r.Weight = []byte("ann"), 7, 1
			take := func(s *memory.Store) (admitted bool) {
				t.Helper()
				now++
				var a store.Answers
				p := &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{r}}}}
				if err := s.Evaluate(t.Context(), p, &a); err != nil {
					t.Fatal(err)
				}
				return a.Sets[0].Decider < 0
			}
			admitted := func(s *memory.Store) (n int) {
				for take(s) {
					n++
				}
				return n
			}
			if to.Copy(from, []*store.Rule{&r})[0] {
				t.Error("copied a counter that does not exist")
			}
			take(from)
			take(from)
			if !to.Copy(from, []*store.Rule{&r})[0] {
				t.Fatal("not copied")
			}
			left, copied := admitted(from), admitted(to)
			if left < 1 || copied != left {
				t.Errorf("the original admits %d more, the copy %d", left, copied)
			}
			if to.Copy(from, []*store.Rule{&r})[0] {
				t.Error("copied over a counter")
			}
		})
	}
}
