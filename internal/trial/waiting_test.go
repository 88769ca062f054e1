package trial

import (
	"testing"

	"github.com/koalagate/koalagate/engine"
)

// However often a caller renews and settles before the trial has decided, one renewal and
// one settlement wait.
func TestFewSettlementsWait(t *testing.T) {
	var r receipt
	for i := range uint64(1000) {
		r.wait(&settlement{Settlement: engine.Settlement{Hits: i}, renews: true})
	}
	for i := range uint64(1000) {
		r.wait(&settlement{Settlement: engine.Settlement{Hits: i}})
		r.wait(&settlement{renews: true})
	}
	if len(r.waiting) != 2 || !r.waiting[0].renews || r.waiting[0].Hits != 999 || r.waiting[1].renews || r.waiting[1].Hits != 0 {
		t.Errorf("%d settlements wait; want the last renewal and the first settlement", len(r.waiting))
	}
}
