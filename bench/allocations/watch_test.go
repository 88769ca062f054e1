//go:build !race

package allocations

import (
	"testing"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/door"
	"github.com/koalagate/koalagate/internal/mapping"
)

// Without a collector of traces, a decision allocates nothing for them: the service watches
// the calls for its metrics alone.
func TestTracingOffAllocatesNothing(t *testing.T) {
	set := parse(t)
	take := func(w *door.Watch) float64 {
		gate := &door.Gate{Engine: engine.New(set), Watch: w}
		q := new(door.Question)
		return testing.AllocsPerRun(runs, func() {
			gate.Arrive(q)
			q.Request = mapping.Request{Door: "extauthz", Method: "GET", Path: "/", Context: ann}
			if _, err := gate.Decide(t.Context(), q, gate.Hit(q)); err != nil {
				t.Error(err)
			}
			q.Reset()
		})
	}
	unwatched := take(nil)
	if watched := take(&door.Watch{Answered: func(string, time.Duration) {}}); watched > unwatched {
		t.Errorf("%.0f allocations with the metrics of the service; want %.0f as without", watched, unwatched)
	}
}

var ann = map[string]string{"uid": "ann"}
