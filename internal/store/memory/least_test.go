package memory

import (
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
)

// Of the smallest limits of which there are shares, all bursts together have one hit, and of
// smaller ones none.
func TestSmallerLimitsLeaveNoHit(t *testing.T) {
	at := &moment{now: 1_780_000_000_000, zone: time.UTC}
	for lease := int64(1); lease <= 200; lease++ {
		for _, r := range []store.Rule{
			{Method: store.Token, Time: 1, Count: 1, Lease: lease},
			{Method: store.Count, Time: 60, Lease: lease},
		} {
			limit, c := &r.Burst, lender(new(lentBucket))
			if r.Method == store.Count {
				limit, c = &r.Count, new(lentWindow)
			}
			_, *limit = r.TooSmall()
			if n := c.pool(&r, at).bursts; n != 1 {
				t.Fatalf("%+v: the bursts have %d hits; want 1", r, n)
			}
			if *limit--; c.pool(&r, at).bursts != 0 {
				t.Fatalf("%+v leaves a hit", r)
			}
		}
	}
}
